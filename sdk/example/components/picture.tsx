// The photographs of the demo site do not exist. A picture is drawn from its path instead: the same path gives the same picture.
import type { ReactNode } from 'react';

const PALETTES = [
  ['#d9e4e6', '#9fb8bd', '#5f8288', '#2f5157', '#183238'],
  ['#f1dfc8', '#d8b48c', '#a4805f', '#5f5a4c', '#2f3a37'],
  ['#e3e6d6', '#b9c39b', '#7d9168', '#4a6648', '#24402f'],
  ['#e6dde3', '#bba7b6', '#83788f', '#4b5169', '#252f45'],
  ['#f0e2d2', '#e0b397', '#b9796a', '#6d5160', '#332f45'],
];

function hashOf(text: string): number {
  let hash = 7;
  for (const character of text) hash = (hash * 31 + character.codePointAt(0)!) >>> 0;
  return hash;
}

/** Returns the outline of a ridge across a picture of 120 by 90. */
function ridge(seed: number, height: number, roughness: number): string {
  const points = Array.from({ length: 9 }, (_, i) => `${i * 15},${height - ((seed >>> (i * 3)) % 8) * roughness}`);
  return `0,90 ${points.join(' ')} 120,90`;
}

const SHAPES: Record<string, (dark: string, light: string) => ReactNode> = {
  tents: (dark, light) => (
    <>
      <path d="M24 76 Q60 14 96 76 Z" fill={dark} />
      <path d="M60 32 L48 76 H72 Z" fill={light} opacity=".85" />
      <path d="M24 76 L14 80 M96 76 L106 80" stroke={dark} strokeWidth="1.2" />
    </>
  ),
  bags: (dark, light) => (
    <>
      <rect x="22" y="38" width="76" height="34" rx="17" fill={dark} />
      <path d="M40 38 V72 M56 38 V72 M72 38 V72" stroke={light} opacity=".5" strokeWidth="1.2" />
      <circle cx="86" cy="55" r="9" fill={light} />
    </>
  ),
  stoves: (dark, light) => (
    <>
      <path d="M60 26 q10 14 0 24 q-10 -10 0 -24" fill={light} />
      <path d="M44 52 H76 L70 60 H50 Z" fill={dark} />
      <rect x="52" y="60" width="16" height="18" rx="3" fill={dark} opacity=".85" />
    </>
  ),
  packs: (dark, light) => (
    <>
      <rect x="40" y="24" width="40" height="54" rx="12" fill={dark} />
      <rect x="46" y="52" width="28" height="20" rx="5" fill={light} opacity=".6" />
      <path d="M46 24 q14 -12 28 0" fill="none" stroke={dark} strokeWidth="3" />
    </>
  ),
  clothing: (dark, light) => (
    <>
      <path d="M46 24 L28 34 L34 52 L42 48 V78 H78 V48 L86 52 L92 34 L74 24 Q60 34 46 24Z" fill={dark} />
      <path d="M60 32 V78" stroke={light} strokeWidth="1.4" opacity=".7" />
    </>
  ),
};

export function Picture({ image }: { image: { src: string; alt: string } }) {
  const hash = hashOf(image.src);
  const [sky, far, middle, near, dark] = PALETTES[hash % PALETTES.length] as [string, string, string, string, string];
  const shape = SHAPES[image.src.split('/')[2] ?? ''];
  return (
    <svg className="picture" viewBox="0 0 120 90" preserveAspectRatio="xMidYMid slice" role="img" aria-label={image.alt}>
      <rect width="120" height="90" fill={sky} />
      <circle cx={20 + (hash % 80)} cy="20" r="7" fill="#fff" opacity=".55" />
      <polygon points={ridge(hash, 58, 3.4)} fill={far} />
      {!shape && <polygon points={ridge(hash >>> 5, 70, 3)} fill={middle} />}
      <polygon points={ridge(hash >>> 9, 84, 1.6)} fill={shape ? middle : near} />
      {shape ? shape(dark, sky) : <polygon points={ridge(hash >>> 13, 90, 1.1)} fill={dark} />}
    </svg>
  );
}

import Link from 'next/link';
import { Frame } from '../components/frame';

export default function NotFound() {
  return (
    <Frame>
      <main className="missing">
        <h1>No path goes here</h1>
        <p>The page was moved, or it never was. Walk back and begin again.</p>
        <p>
          <Link href="/" className="button">
            To the front page
          </Link>
        </p>
      </main>
    </Frame>
  );
}

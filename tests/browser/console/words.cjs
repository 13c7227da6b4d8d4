// Conditions, numbers and metrics in words, by the modules of the console themselves.
'use strict';

const CONDITIONS = [
  [{}, 'always'],
  [{ 'visitor.isReturning': true }, 'the visitor came before'],
  [{ 'visitor.isNew': false }, 'not (the visitor is new)'],
  [{ locale: { $regex: '^de' } }, 'the language matches “^de”'],
  [{ 'now.weekday': { $in: [6, 7] } }, 'the day of the week is one of Saturday, Sunday'],
  [{ 'now.hour': { $gte: 12, $lt: 18 } }, 'the hour is at least 12:00 and the hour is less than 18:00'],
  [{ 'pages./tents': { $count: { $gte: 3, within: '7d' } } }, 'the number of views of /tents is at least 3 within 7d'],
  [{ $not: { 'visitor.lastSeen': { $within: '60d' } } }, 'not (the last event was within 60d)'],
  [
    { $and: [{ $audience: 'member' }, { $or: [{ country: 'NO' }, { country: 'SE' }] }] },
    'the visitor is in the audience “member” and (the country is “NO” or the country is “SE”)',
  ],
  [{ 'traits.plan': { $exists: true } }, 'the trait “plan” is known'],
  [{ 'traits.plan': { $other: 1 } }, 'the trait “plan” $other 1'],
];

const PERCENTS = [
  [-0.0004, '0.0 %'],
  [0.0004, '0.0 %'],
  [-0.05, '−5.0 %'],
  [null, '–'],
];

const CHANGES = [
  [[110, 100], { text: '+10.0 %', direction: 1 }],
  [[90, 100], { text: '−10.0 %', direction: -1 }],
  [[100_001, 100_000], { text: '0.0 %', direction: 0 }],
  [[5, 0], { text: 'new', direction: 0 }],
  [[0, 0], { text: '–', direction: 0 }],
];

// Bucket bounds and the requests up to each, now and at the reading before.
const NOW = [
  [0.001, 90],
  [0.01, 99],
  [Infinity, 100],
];
const QUANTILES = [
  [[NOW, [], 0.5], 0.001],
  [[NOW, [], 0.9], 0.001],
  [[NOW, [], 0.99], 0.01],
  [[NOW, [[0.001, 90]], 0.5], 0.01],
  [[NOW, NOW, 0.5], null],
  [[NOW, [[Infinity, 200]], 0.5], 0.001],
];
const SLOW = [
  [10, 1],
  [Infinity, 5],
];
const QUANTILES_IN_WORDS = [
  [[NOW, [], 0.99], '≤ 10 ms'],
  [[SLOW, [], 0.99], '> 10 s'],
  [[[], [], 0.99], '–'],
];

// Half an hour after the begin of a day of 25 hours, and half an hour before the begin of a day of 23 hours.
const TOMORROWS = [
  [[Date.UTC(2026, 9, 24, 22, 30), 'Europe/Oslo'], '2026-10-26'],
  [[Date.UTC(2026, 2, 28, 22, 30), 'Europe/Oslo'], '2026-03-29'],
  [[Date.UTC(2026, 11, 31, 12), 'UTC'], '2027-01-01'],
];

// Seconds since 1970, and the distance of the ticks. A year must not look like a day.
const AXIS_TIMES = [
  [[Date.UTC(2026, 9, 1) / 1000, 31 * 86_400, 'UTC'], 'Oct 2026'],
  [[Date.UTC(2026, 9, 26) / 1000, 86_400, 'UTC'], '26 Oct'],
  [[Date.UTC(2026, 9, 26, 13) / 1000, 3600, 'UTC'], '13:00'],
];

const DAYS = [
  [['2026-09-25T00:00Z', '2026-10-24T23:59Z', 'UTC'], '25 Sept – 24 Oct 2026'],
  [['2026-09-25T00:00Z', '2026-09-25T23:59Z', 'UTC'], '25 Sept 2026'],
];

const VALIDITIES = [
  [{ alpha: 0.05, isFixed: false }, 'The intervals of 95 % stay valid however often you look.'],
  [{ alpha: 0.001, isFixed: true }, 'The intervals of 99.9 % are valid for one look only.'],
];

const AMOUNTS = [
  [-0.001, '0.00'],
  [-0.009, '-0.01'],
  [12.5, '12.50'],
  [null, '–'],
];

// Weights that a computation leaves beside 0, and shares with all their digits.
const WRITTEN_PERCENTS = [
  [-0, '0 %'],
  [-2.8e-17, '0 %'],
  [0.30000000000000004, '30 %'],
  [0.005, '0.5 %'],
  [1 / 3, '33.3 %'],
];

const COMPARED = [
  [{ now: 103, before: 100 }, '3.0 % more than in the period before'],
  [{ now: 90, before: 100 }, '10.0 % fewer than in the period before'],
  [{ now: 100_001, before: 100_000 }, 'as many as in the period before'],
  [{ now: 5, before: 0 }, 'none in the period before'],
  [{ now: 0, before: 0 }, 'as in the period before'],
  [[{ now: 90, before: 100 }, 'the range compared'], '10.0 % fewer than in the range compared'],
];

const PUBLISHED = '2026-05-04T12:20:33.512Z';
const beforeAndAfter = (from, to, compare) => ({ from, to, compare, days: null, by: null });

// Up to the next version, the end of the chart or the last full hour. More than a day is cut to full days.
const BEFORE_AND_AFTER = [
  [[PUBLISHED, '2026-05-04T13:20:33.512Z', '2026-05-06', Date.parse('2026-05-05T10:00Z')], beforeAndAfter(PUBLISHED, '2026-05-04T13:20:33.512Z', `2026-05-04T11:20:33.512Z..${PUBLISHED}`)],
  [[PUBLISHED, undefined, '2026-06-01', Date.parse('2026-05-04T15:59Z')], beforeAndAfter(PUBLISHED, '2026-05-04T15:00:00.000Z', `2026-05-04T09:41:07.024Z..${PUBLISHED}`)],
  [[PUBLISHED, undefined, '2026-06-01', Date.parse('2026-05-07T11:00Z')], beforeAndAfter(PUBLISHED, '2026-05-06T12:20:33.512Z', `2026-05-02T12:20:33.512Z..${PUBLISHED}`)],
  [[PUBLISHED, undefined, '2026-05-05', Date.parse('2026-05-07T11:00Z')], beforeAndAfter(PUBLISHED, '2026-05-05T00:00:00.000Z', `2026-05-04T00:41:07.024Z..${PUBLISHED}`)],
  [[PUBLISHED, undefined, '2026-06-01', Date.parse('2026-05-04T12:59Z')], undefined],
];

const DURATIONS = [
  [[null], '–'],
  [[0], '0 s'],
  [[59_900], '59.9 s'],
  [[60_000], '1 min'],
  [[3_600_000], '1 h'],
  [[90_000_000], '1 d'],
];

// Amounts of two periods. An amount without a currency is of another currency.
const euros = { currencies: [{ currency: 'EUR', sum: 1 }] };
const dollars = { currencies: [{ currency: 'USD', sum: 1 }] };
const unknown = { currencies: [{ currency: null, sum: 1 }] };
const CURRENCIES = [
  [[euros, euros], true],
  [[euros, { currencies: [] }], true],
  [[euros, dollars], false],
  [[euros, unknown], false],
  [[{ currencies: [...euros.currencies, ...dollars.currencies] }, euros], false],
];

const VALUES = [
  [[{ value: null }, euros], '–'],
  [[{ value: 'properties.revenue' }, { currencies: [] }], '0'],
  [[{ value: 'properties.revenue' }, unknown], '1'],
  [[{ value: 'properties.revenue' }, { currencies: [{ currency: 'EUR', sum: 1234.5 }, ...dollars.currencies] }], '1,234.5 EUR, 1 USD'],
];

// Values of Retry-After, and the shortest wait in milliseconds. A wait has up to a quarter more.
const WAITS = [
  ['2', 2000],
  ['0', 5000],
  ['-1', 5000],
  ['90', 90_000],
  [null, 5000],
  ['soon', 5000],
  ['999999999999', 86_400_000],
  ['Thu, 31 Dec 2099 23:59:59 GMT', 5000],
];

const METRICS = 'a_total 3\n# HELP b text\nb{code="x\\"y",le="+Inf"} 1.5\n\nwrong line here\n';

module.exports = async function words(at) {
  const { page, context } = await at.open('#health');
  const run = (module, name, cases) =>
    page.evaluate(
      async ([module, name, cases]) => {
        const { [name]: call } = await import(new URL(`console/${module}.js`, document.baseURI));
        return cases.map((values) => call(...values));
      },
      [module, name, cases],
    );
  const compare = async (label, module, name, cases) => {
    const found = await run(
      module,
      name,
      cases.map(([values]) => (Array.isArray(values) ? values : [values])),
    );
    // Another release of the browser may have other spaces around a dash.
    at.check(
      label,
      found.map((words) => (typeof words === 'string' ? words.replaceAll(/\s/g, ' ') : words)),
      cases.map(([, expected]) => expected),
    );
  };
  await compare('conditions in words', 'explain', 'conditionInWords', CONDITIONS);
  await compare('shares in words', 'core', 'percent', PERCENTS);
  await compare('shares as written', 'core', 'writtenPercent', WRITTEN_PERCENTS);
  await compare('amounts', 'core', 'amount', AMOUNTS);
  await compare('changes in words', 'core', 'relativeChange', CHANGES);
  await compare('quantiles of a histogram', 'operations', 'quantile', QUANTILES);
  await compare('quantiles in words', 'operations', 'quantileInWords', QUANTILES_IN_WORDS);
  await compare('the date of tomorrow', 'core', 'tomorrow', TOMORROWS);
  await compare('the times of an axis', 'core', 'axisTime', AXIS_TIMES);
  await compare('the days of a comparison', 'core', 'daysBetween', DAYS);
  await compare('a number and the period before', 'compare', 'comparedInWords', COMPARED);
  await compare('the ranges before and after a publication', 'publications', 'beforeAndAfter', BEFORE_AND_AFTER);
  await compare('amounts that can be compared', 'goals', 'isOneCurrency', CURRENCIES);
  await compare('the value of a goal', 'core', 'valueInWords', VALUES);
  await compare('durations', 'steps', 'duration', DURATIONS);
  await compare('the validity of intervals', 'experiment', 'validityInWords', VALIDITIES);
  for (const [retryAfter, least] of WAITS) {
    const waits = (await run('core', 'waitMs', Array(200).fill([{ retryAfter }]))).map((wait) => wait / least);
    const bounds = [Math.min(...waits) >= 1, Math.max(...waits) <= 1.25, Math.max(...waits) - Math.min(...waits) > 0.1];
    at.check(`the waits after Retry-After: ${retryAfter}`, bounds, [true, true, true]);
  }
  const [samples] = await run('operations', 'parseMetrics', [[METRICS]]);
  const expected = [
    { name: 'a_total', labels: {}, value: 3 },
    { name: 'b', labels: { code: 'x\\"y', le: '+Inf' }, value: 1.5 },
  ];
  at.check('the text of the metrics', samples, expected);
  await context.close();
};

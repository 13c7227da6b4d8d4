// The rights of the person at the console. The server decides each request: the console only hides pages and buttons that it would refuse.

// The roles that may use each area, as in the documentation of access.
const AREAS = {
  links: ['analyst', 'privacy', 'operator'],
  numbers: ['viewer', 'analyst', 'privacy', 'operator'],
  audiences: ['viewer', 'analyst', 'privacy', 'composer', 'operator'],
  visitors: ['analyst', 'privacy', 'operator'],
  exports: ['privacy', 'operator'],
  decisions: ['analyst', 'privacy', 'composer', 'operator'],
  changes: ['composer', 'operator'],
  metrics: ['operator'],
};

let grants = [];

// Sets the grants that the server has told.
export function setGrants(told) {
  grants = told;
}

const isOf = (listed, site) => listed === '*' || site === listed || site.startsWith(`${listed}--`);

// Returns whether the person may use an area for a site. Without a site: for any.
export const may = (area, site) =>
  grants.some(({ role, sites }) => AREAS[area].includes(role) && (site === undefined || sites.some((listed) => isOf(listed, site))));

/** The component of a node type that this site does not know yet. */
export function Unknown({ type }: { type: string }) {
  return <p className="note">{`No component for "${type}".`}</p>;
}

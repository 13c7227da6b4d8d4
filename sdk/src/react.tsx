import { type ComponentType, Fragment, type ReactNode } from 'react';
import type { AnySite, Item, Layout as LayoutTree, LayoutNode, NodeFields, Properties, SiteTypes } from './types.js';

export interface NodeProps<P = Properties, F = Properties> {
  id: string;
  type: string;
  props: P;
  /** The rendered zones of the node. */
  zones: Record<string, ReactNode>;
  items?: Item<F>[];
  total?: number;
  /** The next page of the embedded query, for `useMore`. */
  more?: { query: string; params: Properties; cursor: string };
  route: { path: string; params: Record<string, string>; variants: string };
}

/** The component of each node type. A plain object: React serializes it in development. */
export type Registry<S extends SiteTypes> = { [T in keyof S['Components']]?: ComponentType<NodeProps<S['Components'][T], NodeFields<S, T>>> };

/** Components by node type, which is a string in a layout. */
type AnyRegistry = Record<string, ComponentType<NodeProps<any, any>>>;

interface Rendering {
  tree: LayoutTree<any>;
  components: AnyRegistry;
  /** Renders nodes of an unknown type. */
  fallback?: ComponentType<NodeProps<any, any>>;
  /** Wraps each element, for example in an error boundary. */
  wrap?: (element: ReactNode, node: LayoutNode<any>) => ReactNode;
}

export interface LayoutProps<S extends SiteTypes = AnySite> {
  tree: LayoutTree<S>;
  components: Registry<S>;
  fallback?: ComponentType<NodeProps>;
  wrap?: (element: ReactNode, node: LayoutNode<S>) => ReactNode;
  /** Places the zones. Default: a section for each zone, in the order of the layout. */
  children?: (zone: (name: string) => ReactNode) => ReactNode;
}

/** Renders the zones of a layout. */
export function Layout<S extends SiteTypes = AnySite>({ children, ...props }: LayoutProps<S>): ReactNode {
  const { zones } = props.tree.layout;
  const rendering = props as unknown as Rendering;
  const zone = (name: string) => <Zone nodes={zones[name]} {...rendering} />;
  if (children) return <>{children(zone)}</>;
  return Object.keys(zones).map((name) => (
    <section key={name} data-zone={name}>
      {zone(name)}
    </section>
  ));
}

export interface ZoneProps extends Rendering {
  nodes?: LayoutNode<any>[];
}

/** Renders the nodes of a zone and the zones inside them. */
export function Zone({ nodes = [], ...rendering }: ZoneProps): ReactNode {
  const { tree, components, fallback, wrap } = rendering;
  return nodes.map((node) => {
    // `Object.hasOwn` keeps a node type such as `constructor` away from Object.prototype.
    const Component = Object.hasOwn(components, node.type) ? components[node.type] : fallback;
    if (!Component) return process.env.NODE_ENV === 'production' ? null : <pre key={node.id}>No component for node type "{node.type}".</pre>;
    const inner = Object.entries(node.zones ?? {}) as [string, LayoutNode<any>[]][];
    const zones = Object.fromEntries(inner.map(([name, nodes]) => [name, <Zone key={name} nodes={nodes} {...rendering} />]));
    const { id, type, props, items, total, query, nextCursor } = node;
    const more = query && nextCursor ? { query: query.id, params: query.params ?? {}, cursor: nextCursor } : undefined;
    const route = { path: tree.route, params: tree.params, variants: tree.variants };
    const element = <Component {...{ id, type, props, zones, items, total, more, route }} />;
    return <Fragment key={id}>{wrap ? wrap(element, node) : element}</Fragment>;
  });
}

import type { NodeFields } from '@parallax/sdk';
import type { NodeProps } from '@parallax/sdk/react';
import type { Components, Site } from '../site';

/** The props of the component of a node type. */
export type Node<T extends keyof Components> = NodeProps<Components[T], NodeFields<Site, T>>;

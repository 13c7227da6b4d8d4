import type { Registry } from '@parallax/sdk/react';
import type { Site } from '../site';
import { Banner, Callout, Card, Checklist, Columns, FAQ, Facts, Hero, Quote, Reviews, Table, Text } from './blocks';
import { ContactForm, GiftCardForm, Newsletter, RentalCalendar } from './forms';
import { Plans, ProductGrid, ProductPage, ProductStrip, StoreList, StorePage } from './shop';
import { Article, LeadStory, StoryList } from './stories';
import { Countdown, MemberCard, RecentlyViewed, RepairHistory } from './visitor';

/** The component of each node type. `Required`: a new node type of the site is a compile error here. */
export const components: Required<Registry<Site>> = {
  Article,
  Banner,
  Callout,
  Card,
  Checklist,
  Columns,
  ContactForm,
  Countdown,
  FAQ,
  Facts,
  GiftCardForm,
  Hero,
  LeadStory,
  MemberCard,
  Newsletter,
  Plans,
  ProductGrid,
  ProductPage,
  ProductStrip,
  Quote,
  RecentlyViewed,
  RentalCalendar,
  RepairHistory,
  Reviews,
  StoreList,
  StorePage,
  StoryList,
  Table,
  Text,
};

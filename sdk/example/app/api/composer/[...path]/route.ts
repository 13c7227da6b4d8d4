import { composerHandler, fileStorage } from '@parallax/composer/server';
import { composer, personOf } from '../../../../composer';

const handler =
  composer &&
  composerHandler({
    storage: fileStorage({ directory: composer.directory }),
    async authorize(request) {
      const user = await personOf(request);
      return user && { user, roles: ['view', 'edit'] };
    },
    origin: composer.origin,
    parallax: composer.parallax,
  });

const answer = async (request: Request) => (handler ? handler(request) : new Response('Not found', { status: 404 }));
export { answer as GET, answer as POST };

// A real authorization server for tests, on the loopback: node issuer.mjs PORT
//
// Everybody who comes is Ana, and agrees to everything. Tokens are JWTs for whichever resource is asked for.
// POST /test/rotate signs with a new key and still publishes the old one; POST /test/withdraw does not.

import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const port = Number(process.argv[2]);
const issuer = `http://127.0.0.1:${port}`;
const TOOL_SCOPES = 'tools:read tools:write';

let count = 0;
function makeKey() {
  count += 1;
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: `key-${count}`, use: 'sig', alg: 'RS256' };
}

function makeProvider(keys) {
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: [
      {
        client_id: 'robot',
        client_secret: 'only-for-tests',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    scopes: ['openid', 'offline_access', ...TOOL_SCOPES.split(' ')],
    cookies: { keys: ['only-for-tests'] },
    clientDefaults: { id_token_signed_response_alg: 'RS256' },
    // The client registers with the scopes of its first challenge; here it may ask for others later.
    extraClientMetadata: {
      properties: ['may_ask_for_more'],
      validator: (ctx, key, value, metadata) => {
        delete metadata.scope;
      },
    },
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    ttl: { Interaction: 600, Session: 600, Grant: 600, AccessToken: 300, ClientCredentials: 300, IdToken: 300 },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource) => ({
          scope: TOOL_SCOPES,
          audience: resource,
          accessTokenTTL: 300,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  });
  provider.on('server_error', (ctx, error) => console.error(error));
  return { provider, answer: provider.callback() };
}

let keys = [makeKey()];
let current = makeProvider(keys);

async function interact(request, response) {
  const { provider } = current;
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    await provider.interactionFinished(request, response, { login: { accountId: 'ana' } });
    return;
  }
  const known = grantId ? await provider.Grant.find(grantId) : undefined;
  const grant = known ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries(missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, scopes.join(' '));
  }
  const consent = { grantId: await grant.save() };
  await provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

createServer(async (request, response) => {
  const act = request.url.startsWith('/test/') ? request.url.slice(6) : undefined;
  try {
    if (act === 'rotate' || act === 'withdraw') {
      keys = act === 'rotate' ? [makeKey(), ...keys] : [makeKey()];
      current = makeProvider(keys);
      response.end(keys[0].kid);
    } else if (request.url.startsWith('/interaction/')) {
      await interact(request, response);
    } else {
      current.answer(request, response);
    }
  } catch (error) {
    console.error(error);
    response.statusCode = 500;
    response.end();
  }
}).listen(port, '127.0.0.1');

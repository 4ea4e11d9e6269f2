// A certified OpenID provider for the tests: node provider.js PORT REDIRECT_URI. Whoever signs in as NAME is NAME@example.com.
import Provider from "oidc-provider";

const [port, redirectUri] = process.argv.slice(2);
const groups = { ada: ["reviewers"], grace: ["admins"] };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "handoffaudit",
      client_secret: "a secret of the tests",
      redirect_uris: [redirectUri],
      token_endpoint_auth_method: "client_secret_post",
    },
  ],
  pkce: { required: () => true },
  claims: { openid: ["sub", "groups"], email: ["email", "email_verified"], profile: ["name"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      name: id,
      email: `${id}@example.com`,
      email_verified: id !== "mallory",
      groups: groups[id] ?? [],
    }),
  }),
  cookies: { keys: ["of the tests"] },
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));

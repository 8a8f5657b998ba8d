//! Owns what is held of the kinds of secrets: made-up examples of each, in the places where logs have them. They are
//! put together from a beginning and drawn characters, so that no source file holds anything like a token.

use super::*;
use crate::report::redact::Names;

const HEX: &str = "0123456789abcdef";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const URL: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const DIGITS: &str = "0123456789";

/// Characters of an alphabet, drawn by a fixed seed.
fn drawn(seed: &str, alphabet: &str, length: usize) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = seed
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    (0..length).map(|_| alphabet[next() % alphabet.len()]).collect()
}

/// A form in short: `hf_{a34}` is `hf_` and 34 drawn letters and digits.
fn made(form: &str) -> String {
    let mut out = String::new();
    let mut rest = form;
    while let Some((before, behind)) = rest.split_once('{') {
        let (what, after) = behind.split_once('}').unwrap();
        let (kind, length) = what.split_at(1);
        let alphabet = match kind {
            "h" => HEX,
            "l" => LOWER,
            "U" => UPPER,
            "a" => ALNUM,
            "c" => LETTERS,
            "u" => URL,
            "b" => BASE64,
            "d" => DIGITS,
            other => panic!("{other}"),
        };
        out += before;
        out += &drawn(&format!("{form}{}", out.len()), alphabet, length.parse().unwrap());
        rest = after;
    }
    out + rest
}

fn redacted(text: &str) -> String {
    let mut names = Names::default();
    names.learn(text);
    names.redacted(text)
}

/// That nothing of a secret is left: no eight characters of it in a row, but for those of its beginning.
fn assert_gone(secret: &str, beginning: usize, text: &str, kind: &str) {
    let out = redacted(text);
    let body: Vec<char> = secret.chars().skip(beginning).collect();
    let length = body.len().min(8);
    for piece in body.windows(length) {
        let piece: String = piece.iter().collect();
        assert!(!out.contains(&piece), "{kind}: {piece} of {text} is left in {out}");
    }
    assert_eq!(out.lines().count(), text.lines().count(), "{kind}");
}

/// Kinds that have a form of their own.
const OWN_FORM: &[(&str, &str)] = &[
    ("HubSpot", "pat-na1-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("HubSpot", "pat-eu1-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("Razorpay", "rzp_live_{a14}"),
    ("Flutterwave", "FLWSECK-{h32}-X"),
    ("Flutterwave", "FLWSECK_TEST-{h32}-X"),
    ("Lob", "live_{h35}"),
    ("Lob", "test_{h35}"),
    ("Databricks", "dose{h32}"),
    ("Kaggle", "KGAT_{h32}"),
    ("Infisical", "st.{h24}.{h32}.{h32}"),
    ("Anaconda", "an-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("Asana", "1/{d16}:{h32}"),
    ("Scaleway", "SCW{U17}"),
    ("ApiKey", "ApiKey-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("Contentful", "CFPAT-{u20}--{u21}"),
    ("Baseten", "{a8}.{a32}"),
    ("1Password secret key", "A3-{U6}-{U11}-{U5}-{U5}-{U5}"),
    ("1Password service account", "ops_eyJ{b260}"),
    ("Adobe client secret", "p8e-{l32}"),
    ("age", "AGE-SECRET-KEY-1{U58}"),
    ("Aikido", "AIK_SECRET_{a64}"),
    ("Airtable", "pat{a14}.{h64}"),
    ("Alibaba", "LTAI{l20}"),
    ("Alibaba STS", "STS.{a32}"),
    ("Anthropic", "sk-ant-api03-{u93}AA"),
    ("Anthropic admin", "sk-ant-admin01-{u93}AA"),
    ("Apify", "apify_api_{a36}"),
    ("Artifactory", "AKCp{a69}"),
    ("Artifactory reference", "cmVmd{a59}"),
    ("Atlassian", "ATATT3{u186}"),
    ("AWS access key", "AKIA{U16}"),
    ("AWS temporary key", "ASIA{U16}"),
    ("Amazon Bedrock", "ABSK{b120}"),
    ("Amazon Bedrock short", "bedrock-api-key-YmVk{b40}"),
    ("AWS session token", "IQoJb3JpZ2luX2Vj{b200}"),
    ("Azure client secret", "{a3}8Q~{a34}"),
    ("Azure storage key", "{b86}=="),
    ("Bitbucket app password", "ATBB{a32}"),
    ("Brevo", "xkeysib-{h64}-{a16}"),
    ("Brave", "BSA{u27}"),
    ("Buildkite", "bkua_{l40}"),
    ("Canva", "cnvca{u51}"),
    ("Cerebras", "csk-{l48}"),
    ("CircleCI", "CCIPAT_{a22}_{l40}"),
    ("ClickHouse", "4b1d{a38}"),
    ("Clojars", "CLOJARS_{l60}"),
    ("Cloudflare origin", "v1.0-{h24}-{h146}"),
    ("Cloudsmith", "csa_{h30}{a6}"),
    ("CockroachDB", "CCDB1_{a22}_{a40}"),
    ("crates.io", "cio{a32}"),
    ("Databricks", "dapi{h32}"),
    ("DataStax", "AstraCS:{a24}"),
    ("Defined Networking", "dnkey-{l26}-{l52}"),
    ("Deno", "ddp_{a36}"),
    ("DigitalOcean personal", "dop_v1_{h64}"),
    ("DigitalOcean OAuth", "doo_v1_{h64}"),
    ("DigitalOcean refresh", "dor_v1_{h64}"),
    ("Discord bot", "M{a24}.{a6}.{u30}"),
    ("Docker Hub", "dckr_pat_{u27}"),
    ("Docker Hub organization", "dckr_oat_{u32}"),
    ("Docker Swarm", "SWMTKN-1-{l50}-{l25}"),
    ("Doppler", "dp.pt.{a43}"),
    ("Doppler service", "dp.st.prd.{a40}"),
    ("Duffel", "duffel_live_{u43}"),
    ("Dynatrace", "dt0c01.{U24}.{U64}"),
    ("EasyPost", "EZAK{l54}"),
    ("Elastic", "essu_{u80}"),
    ("ElevenLabs", "sk_{h48}"),
    ("Facebook page", "EAAM{a120}"),
    ("Figma", "figd_{u40}"),
    ("Fireworks", "fw_{a24}"),
    ("Flutterwave", "FLWSECK_TEST-{h32}-X"),
    ("Fly.io", "fo1_{u43}"),
    ("Fly.io macaroon", "fm2_{b120}"),
    ("Frame.io", "fio-u-{u64}"),
    ("GitHub personal", "ghp_{a36}"),
    ("GitHub OAuth", "gho_{a36}"),
    ("GitHub user to server", "ghu_{a36}"),
    ("GitHub server to server", "ghs_{a36}"),
    ("GitHub refresh", "ghr_{a36}"),
    ("GitHub fine-grained", "github_pat_{a22}_{a59}"),
    ("GitLab personal", "glpat-{u20}"),
    ("GitLab routable", "glpat-{u30}.{l9}"),
    ("GitLab runner", "glrt-{u20}"),
    ("GitLab runner, routable", "glrt-t1_{u27}.{l9}"),
    ("GitLab trigger", "glptt-{h40}"),
    ("GitLab deploy", "gldt-{u20}"),
    ("GitLab job", "glcbt-{a2}_{u20}"),
    ("GitLab feed", "glft-{u20}"),
    ("GitLab flags", "glffct-{u20}"),
    ("GitLab mail", "glimt-{u25}"),
    ("GitLab agent", "glagent-{u50}"),
    ("GitLab OAuth", "gloas-{u64}"),
    ("GitLab SCIM", "glsoat-{u20}"),
    ("GitLab registration", "GR1348941{u20}"),
    ("Google API", "AIza{u35}"),
    ("Google OAuth", "ya29.{u80}"),
    ("Google OAuth client", "GOCSPX-{u28}"),
    ("Gemini", "AQ.Ab8RN6{u44}"),
    ("Grafana Cloud", "glc_{b60}"),
    ("Grafana service account", "glsa_{a32}_{h8}"),
    ("Grafana, older", "eyJrIjoi{a90}"),
    ("Groq", "gsk_{a52}"),
    ("Harness", "pat.{u22}.{a24}.{a20}"),
    ("Heroku", "HRKU-AA{u58}"),
    ("Hugging Face", "hf_{c34}"),
    ("Hugging Face organization", "api_org_{c34}"),
    ("Hugging Face OAuth", "hf_oauth_{u60}"),
    ("Infracost", "ico-{a32}"),
    ("Intra42", "s-s4t2ud-{h64}"),
    ("Jina", "jina_{h32}{a28}"),
    ("JWT", "eyJ{u30}.eyJ{u60}.{u43}"),
    ("JWT in base64", "ZXlKaGJHY2lPaU{b80}"),
    ("LangSmith personal", "lsv2_pt_{h32}_{h10}"),
    ("LangSmith service", "lsv2_sk_{h32}_{h10}"),
    ("Langfuse", "sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("Linear", "lin_api_{a40}"),
    ("LlamaCloud", "llx-{a48}"),
    ("Mailchimp", "{h32}-us12"),
    ("Mailgun", "key-{h32}"),
    ("MailerSend", "mlsn.{h64}"),
    ("Mapbox", "pk.eyJ{a57}.{a22}"),
    ("MaxMind", "{a6}_{a29}_mmk"),
    ("Modal id", "ak-{a22}"),
    ("Modal secret", "as-{a22}"),
    ("MongoDB Atlas", "mdb_sa_sk_{u40}"),
    ("Neon", "napi_{l64}"),
    ("New Relic", "NRAK-{U27}"),
    ("New Relic insert", "NRII-{u32}"),
    ("New Relic browser", "NRJS-{h19}"),
    ("NGC, base64", "{a84}"),
    ("Notion", "ntn_{d11}{a35}"),
    ("Notion, older", "secret_{a43}"),
    ("npm", "npm_{a36}"),
    ("NVIDIA", "nvapi-{u64}"),
    ("Octopus", "API-{U26}"),
    ("OpenAI", "sk-{a20}T3Blbk{a24}"),
    ("OpenAI project", "sk-proj-{u74}T3Blbk{u74}"),
    ("OpenAI service account", "sk-svcacct-{u58}T3Blbk{u58}"),
    ("OpenAI admin", "sk-admin-{u58}T3Blbk{u58}"),
    ("OpenRouter", "sk-or-v1-{h64}"),
    ("DeepSeek", "sk-{h32}"),
    ("OpenShift", "sha256~{u43}"),
    ("Perplexity", "pplx-{a48}"),
    ("Pinecone", "pcsk_{a6}_{a63}"),
    ("PlanetScale", "pscale_tkn_{u43}"),
    ("PlanetScale password", "pscale_pw_{u43}"),
    ("Postman", "PMAK-{h24}-{h34}"),
    ("PostHog", "phx_{a43}"),
    ("Prefect", "pnu_{a36}"),
    ("Pulumi", "pul-{h40}"),
    ("PyPI", "pypi-AgEIcHlwaS5vcmc{u80}"),
    ("ReadMe", "rdme_{l70}"),
    ("Render", "rnd_{a28}"),
    ("Replicate", "r8_{a37}"),
    ("Resend", "re_{a8}_{a24}"),
    ("RubyGems", "rubygems_{h48}"),
    ("RunPod", "rpa_{U40}{a6}"),
    ("Salesforce", "00D{a12}!{a96}"),
    ("Scalingo", "tk-us-{u48}"),
    ("SendGrid", "SG.{u22}.{u43}"),
    ("Sentry user", "sntryu_{h64}"),
    ("Sentry organization", "sntrys_eyJpYXQiO{b80}_{b43}"),
    ("SettleMint", "sm_pat_{a16}"),
    ("Shippo", "shippo_live_{h40}"),
    ("Shopify access", "shpat_{h32}"),
    ("Shopify custom", "shpca_{h32}"),
    ("Shopify private", "shppa_{h32}"),
    ("Shopify secret", "shpss_{h32}"),
    ("Slack bot", "xoxb-{d12}-{d12}-{a24}"),
    ("Slack user", "xoxp-{d11}-{d11}-{d11}-{h32}"),
    ("Slack app", "xapp-1-A{U10}-{d12}-{h64}"),
    ("Slack configuration", "xoxe.xoxp-1-{U163}"),
    ("Slack session", "xoxc-{d12}-{d12}-{d12}-{h64}"),
    ("SonarQube", "squ_{h40}"),
    ("Sourcegraph", "sgp_{h16}_{h40}"),
    ("Square", "sq0atp-{u22}"),
    ("Square secret", "sq0csp-{u43}"),
    ("Stripe secret", "sk_live_{a24}"),
    ("Stripe restricted", "rk_live_{a24}"),
    ("Stripe webhook", "whsec_{a32}"),
    ("Supabase", "sbp_{h40}"),
    ("Supabase project", "sb_secret_{u31}"),
    ("Tailscale", "tskey-auth-{a12}-{a32}"),
    ("Tavily", "tvly-dev-{a32}"),
    ("Telegram bot", "{d10}:AA{u33}"),
    ("Terraform", "{a14}.atlasv1.{u64}"),
    ("Together", "tgp_v1_{u43}"),
    ("Twilio key", "SK{h32}"),
    ("Twilio account", "AC{h32}"),
    ("Typeform", "tfp_{u59}"),
    ("Unkey", "unkey_{a24}"),
    ("Vault", "hvs.{u95}"),
    ("Vault batch", "hvb.{u140}"),
    ("Vercel gateway", "vck_{u56}"),
    ("Vercel", "vcp_{u56}"),
    ("Weights & Biases", "wandb_v1_{a77}"),
    ("xAI", "xai-{a80}"),
    ("Yandex", "AQVN{u36}"),
    ("Zuplo", "zpka_{l32}_{h8}"),
    ("bcrypt", "$2b$12${a53}"),
    ("crypt", "$6${a16}${a86}"),
    ("SSH", "AAAAC3NzaC1lZDI1NTE5AAAAI{b43}"),
    ("an unknown provider", "zzq_live_{a40}"),
    ("another one", "quux-{a44}"),
];

/// Kinds that only what stands beside them tells: the words before them, and the form.
const BESIDE_A_WORD: &[(&str, &str, &str)] = &[
    ("Weights & Biases", "wandb: using ", "{h40}"),
    ("Weights & Biases", "wandb login --relogin ", "{h40}"),
    ("Weights & Biases", "Paste your API key and hit enter:\n", "{h40}"),
    ("Weights & Biases", "the key of my wandb account\n  ", "{h40}"),
    ("Vast.ai", "VAST_API_KEY      ", "{h64}"),
    ("Vast.ai", "vastai set api-key ", "{h64}"),
    ("Vault, older", "Key    Value\ntoken    ", "s.{a24}"),
    ("Vault, older", "vault login ", "s.{a24}"),
    ("Adafruit", "ADAFRUIT_IO=", "{l32}"),
    ("Algolia", "algolia: ", "{l32}"),
    ("Asana", "asana_client = ", "{l32}"),
    ("Bittrex", "bittrex => ", "{l32}"),
    ("Cloudflare", "cloudflare_global: ", "{h37}"),
    ("Codecov", "CODECOV: ", "{l32}"),
    ("Cohere", "CO_API_KEY=", "{a40}"),
    ("Cohere", "cohere client with ", "{a40}"),
    ("Coinbase", "coinbase = ", "{u64}"),
    ("Comet", "COMET_API_KEY: ", "{a25}"),
    ("ClearML", "  access_key: ", "{U30}"),
    ("ClearML", "  secret_key: ", "{u50}"),
    ("Contentful", "contentful: ", "{u43}"),
    ("Datadog", "datadog: ", "{h32}"),
    ("Discord secret", "discord_client: ", "{l32}"),
    ("Dropbox", "dropbox = ", "{l32}"),
    ("Fastly", "fastly: ", "{u32}"),
    ("Heroku", "HEROKU: ", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("Intercom", "intercom=", "{u60}"),
    ("JFrog", "jfrog: ", "{l73}"),
    ("KuCoin", "kucoin: ", "{h24}"),
    ("Lambda", "LAMBDA_API_KEY ", "secret_x_{h32}.{a32}"),
    ("LaunchDarkly", "launchdarkly: ", "{u40}"),
    ("Mattermost", "mattermost: ", "{l26}"),
    ("Mistral", "MISTRAL_API_KEY='", "{a32}"),
    ("MLflow", "MLFLOW_TRACKING_PASSWORD=", "{a12}"),
    ("Neptune", "NEPTUNE_API_TOKEN=", "{b80}=="),
    ("Netlify", "netlify: ", "{u43}"),
    ("Okta", "okta = ", "00{u40}"),
    ("Pinecone, older", "PINECONE_API_KEY: ", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("Sendbird", "sendbird: ", "{h40}"),
    ("Snyk", "snyk_token=", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("SumoLogic", "sumologic: ", "{a64}"),
    ("Telegram", "telegram token ", "{d9}:{a35}"),
    ("Travis", "travis: ", "{a22}"),
    ("Twitch", "twitch: ", "{l30}"),
    ("Twitter", "twitter secret: ", "{a50}"),
    ("Yandex", "yandex: ", "{u40}"),
    ("Zendesk", "zendesk: ", "{l40}"),
    ("RunPod, older", "runpodctl config --apiKey ", "{U40}"),
    ("Kaggle", "KAGGLE_KEY=", "{h32}"),
    ("Kaggle", "{\"username\":\"x\",\"key\":\"", "{h32}"),
    ("AWS secret", "aws_secret_access_key = ", "{b40}"),
    ("AWS secret", "AWS Secret Access Key [None]: ", "{b40}"),
    ("Azure", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=", "{b86}=="),
    ("Azure SAS", "https://x.example/c?sv=2024-11-04&sig=", "{a43}%3D"),
    ("Azure Service Bus", "SharedAccessKeyName=Root;SharedAccessKey=", "{b43}="),
    ("GCP service account", "\"private_key_id\": \"", "{h40}"),
    ("CloudFront", "Policy=", "{a60}"),
    ("CloudFront", "&Signature=", "{u80}~~"),
    ("CloudFront", "Key-Pair-Id=", "K{U13}"),
    ("AWS signature", "X-Amz-Signature=", "{h64}"),
    ("AWS signature", "X-Amz-Security-Token: ", "{b60}"),
    ("AWS signature", "Authorization: AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=", "{h64}"),
    ("Cookie", "Cookie: SESSIONID=", "{a26}"),
    ("Cookie", "SESSIONID=", "{h26}"),
    ("Cookie", "Set-Cookie: x; connect.sid=s%3A", "{u32}"),
    ("Cookie", "JSESSIONID: ", "{U32}"),
    ("Basic", "Authorization: Basic ", "{a24}=="),
    ("Bearer", "authorization: bearer ", "{l20}"),
    ("Token", "Authorization: Token ", "{h40}"),
    ("Header", "X-Api-Key: ", "{l18}"),
    ("Header", "Ocp-Apim-Subscription-Key: ", "{h32}"),
    ("Header", "curl -H 'PRIVATE-TOKEN: ", "{u20}"),
    ("Escaped", "?user=x&password%3D", "{a12}"),
    ("Escaped", "{\\\"db_password\\\":\\\"", "{a12}"),
    ("Unicode", "url?token\\u003d", "{a12}"),
    ("camelCase", "clientSecret: '", "{a12}"),
    ("dots", "spring.datasource.password=", "{c12}"),
    ("blank", "The access token is: ", "{a12}"),
    ("XML", "<password>", "{c12}"),
    ("NuGet", "<add key=\"ClearTextPassword\" value=\"", "{c12}"),
    ("netrc", "machine x\n  login y\n  password ", "{c12}"),
    ("pgpass", "db.example:5432:train:me:", "{c12}"),
    ("connection", "postgresql://me:", "{c12}@db:5432/x"),
    ("connection", "dsn me:", "{c12}@db:5432/x"),
    ("connection", "Server=db;User Id=sa;Password=", "{c12};"),
    ("MySQL", "mysql -h db -u root -p", "{c12}"),
    ("MySQL", "mysql -u root -p ", "{c12}"),
    ("Docker", "docker login nvcr.io -u '$oauthtoken' -p ", "{a84}"),
    ("any command", "some-tool -u me -p ", "{c12}"),
    ("sshpass", "sshpass -p ", "{c12}"),
    ("SQL", "ALTER USER x IDENTIFIED BY '", "{c12}'"),
    ("smbclient", "smbclient //x/y -U me%", "{c12}"),
    ("npm", "//registry.npmjs.org/:_authToken=", "{h36}"),
    ("requests", "requests.get(u, auth=('me', '", "{c12}')"),
    ("Slack", "https://hooks.slack.com/services/T0000AAAA/B00000000/", "{a24}"),
    ("Discord", "https://discord.com/api/webhooks/1/", "{u68}"),
    ("Teams", "https://x.webhook.office.com/webhookb2/", "{h32}@{h32}/IncomingWebhook/{h32}"),
];

#[test]
fn there_are_many_kinds() {
    let labels: std::collections::BTreeSet<&str> =
        OWN_FORM.iter().map(|row| row.0).chain(BESIDE_A_WORD.iter().map(|row| row.0)).collect();
    assert!(labels.len() >= 200 && KINDS.len() >= 200, "{} {}", labels.len(), KINDS.len());
}

#[test]
fn a_secret_with_a_form_of_its_own_goes_wherever_it_stands() {
    for (kind, form) in OWN_FORM {
        let secret = made(form);
        let beginning = form.find('{').unwrap_or(0);
        let (half, rest) = secret.split_at(secret.len() / 2);
        let wide = "x".repeat(60);
        let places = [
            format!("loading model\nnow {secret} and on\nstep 1"),
            format!("export SOME_THING={secret}; python t.py"),
            format!("{{\"some\": \"{secret}\", \"n\": 1}}"),
            format!("X-Thing: {secret}\r\nHost: x"),
            format!("python t.py --thing {secret} --lr 1e-4\npython t.py --thing='{secret}'"),
            format!("{{\"log\":\"a\\n{secret}\\nb: \\\"{secret}\\\"\"}}"),
            format!("app-1  | 2026-11-22 10:00:00 some: {secret}"),
            format!("\u{1b}[31m{secret}\u{1b}[0m \u{1b}[1mx"),
        ];
        assert_gone(&secret, beginning, &places.join("\n"), kind);
        // A wider line near it would say that no terminal wrapped it.
        let wrapped =
            format!("{wide} {half}\n{rest}\nnext line{}{wide} {half}\r\n{rest}\r\nnext line", "\n".repeat(12));
        assert_gone(&secret, beginning, &wrapped, kind);
    }
}

#[test]
fn a_secret_without_a_form_goes_beside_a_word_that_marks_it() {
    for (kind, before, form) in BESIDE_A_WORD {
        let secret = made(form);
        let own = secret.split(['@', ';', '\'', ')']).next().unwrap();
        for text in [format!("{before}{secret}"), format!("step 1\n  {before}{secret}\nstep 2 of many")] {
            assert_gone(own, form.find('{').unwrap_or(0), &text, kind);
        }
    }
}

#[test]
fn every_row_of_the_table_finds_its_own() {
    for kind in KINDS.iter() {
        let alphabet = match kind.follows {
            Follows::Hex => HEX,
            Follows::Capitals => UPPER,
            _ => ALNUM,
        };
        let secret = kind.begins.clone() + &drawn(&kind.begins, alphabet, kind.sure);
        let text = if kind.marked { format!("token {secret}") } else { format!("x {secret} y") };
        assert_gone(&secret, kind.begins.len(), &text, &kind.begins);
    }
}

/// Names, commands and notations in which logs show secrets; `{..}` is the secret.
const IN_PLACE: &[(&str, &str, &str)] = &[
    ("api_key: !vault '", "{a20}", "'"),
    ("password: !!str ", "{c11}", ""),
    ("env: ('HF_TOKEN', '", "{a20}", "')"),
    ("[('DB_PASSWORD', '", "{c12}", "'), ('LR', '3')]"),
    ("x = [('LR', '3'), ('db_password', '", "{l12}", "')]"),
    ("{\"Key\": \"DB_PASSWORD\", \"Value\": \"", "{c12}", "\"}"),
    ("{\"ParameterKey\": \"SmtpPass\", \"ParameterValue\": \"", "{c12}", "\"}"),
    ("- name: SSHPASS\n  value: ", "{c12}", ""),
    ("sshpass: ", "{l12}", ""),
    ("ldap_bind_pw = ", "{l12}", ""),
    ("rclone_config_pass=", "{l12}", ""),
    ("--openssl-pass ", "{l12}", ""),
    ("openssl_pass: ", "{c12}", ""),
    ("dbPass: ", "{c12}", ""),
    ("pwd_db=", "{c12}", ""),
    ("pwdDb: '", "{c12}", "'"),
    ("--pwd-db ", "{c12}", " --lr 1"),
    ("OPENSSL_PASS ", "{a14}7q", ""),
    ("| DB_PASS | ", "{a14}7q", " |"),
    ("| db_pass | ", "{a14}7q", " |"),
    ("<openssl_pass>", "{c12}", "</openssl_pass>"),
    ("GET /x?rclone_config_pass=", "{c12}", "&n=1"),
    ("to=%2Fx%26rclone_config_pass%3D", "{c12}", "%26n%3D1"),
    ("db_password -> ", "{c12}", ""),
    ("accesskey -> ", "{c20}", ""),
    ("MYSQL_PWD is ", "{c12}", ""),
    ("smtp_passwd is ", "{c12}", ""),
    ("MINIO_ROOT_PASSWORD ", "{a14}7q", ""),
    ("the password '", "{c12}", "' was rejected"),
    ("Password:\n", "{c12}", ""),
    ("https://open.feishu.cn/open-apis/bot/v2/hook/", "{h8}-{h4}-{h4}-{h4}-{h12}", ""),
    ("https://http-intake.logs.datadoghq.com/v1/input/", "{h32}", ""),
    ("kubectl create secret generic x --from-literal=any=", "{c12}", ""),
    ("unzip -P ", "{c12}", " x.zip"),
    ("sudo -S <<< ", "{c12}", ""),
    ("rsync grace:", "{c12}", "@10.0.0.5"),
    ("x=SecretStr('", "{c12}", "')"),
    ("OTP: ", "{d6}", ""),
    ("your 2FA code is ", "{d6}", ""),
    ("PIN ", "{d6}", ""),
];

#[test]
fn a_secret_goes_in_every_notation() {
    let mut left = Vec::new();
    for (before, form, behind) in IN_PLACE {
        let secret = made(form);
        let text = format!("step 1\n{before}{secret}{behind}\nstep 2 of many");
        let out = redacted(&text);
        let is_part_left = secret.as_bytes().windows(6).any(|part| out.contains(std::str::from_utf8(part).unwrap()));
        if is_part_left || out.lines().count() != text.lines().count() {
            left.push(format!("{text}\n=> {out}"));
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n\n"));
}

#[test]
fn a_token_cut_at_the_terminals_width_goes_from_the_next_line() {
    for width in [79, 80, 120] {
        let token = made("ghp_{a36}");
        let (half, rest) = token.split_at(24);
        let line = format!("{} {half}", "x".repeat(width - 25));
        let text = format!("{}\n{line}\n{rest}\nstep 1\n{}", "y ".repeat(90), "y ".repeat(90));
        let out = redacted(&text);
        assert!(!out.contains(rest) && out.contains("\nstep 1\n"), "{out}");
        let whole =
            format!("{}\n{} {token}\nTraceback (most recent call last):", "y ".repeat(90), "x".repeat(width - 41));
        assert!(redacted(&whole).contains("\nTraceback (most"));
    }
}

#[test]
fn what_only_has_a_secrets_name_stays() {
    for text in [
        "session_id=train-20260101 session: eval_run-12",
        "forward_pass: 12.3ms backward_pass=4 num_pass=3 first_pass: done",
        "password_file: /run/secrets/x --password-file x, password_min_length: 12",
        "compass: 12, bypass=True, pass_rate: 0.98, pass@1: 0.5, passed=3",
        "def token() -> str, step 3 -> 4, token -> expert, shape -> (2, 3)",
        "the password is not set, HF_TOKEN was found, DB_PASSWORD is required",
        "missing: ['token', 'labels'], columns ['password', 'hits']",
        "kernel<<<grid, block>>> pin memory 123456, spin 123456",
        "test_0123abcdef45 st.markdown.table test_deadbeef live_preview",
    ] {
        assert_eq!(redacted(text), text);
    }
    assert_eq!(redacted("https://wandb.ai/acme/llama/runs/1a2b3c4d"), "https://wandb.ai/USER/llama/runs/1a2b3c4d");
}

/// The same in pairs, tables, commands and questions; `~~` is the secret.
#[test]
fn a_word_that_is_a_password_goes_behind_any_name_of_one() {
    let secret = ["purple", "tiger"].concat();
    for text in [
        "[\"DB_PASSWORD\", \"~~\"]",
        "[('A', 'b'), (\"pgpass\", \"~~\")]",
        "env=(b'HF_TOKEN', b'~~')",
        "{\"Name\": \"pgpass\", \"Value\": \"~~\"}",
        "Name: DB_PASS\nValue: ~~",
        "{\"value\": \"~~\", \"name\": \"DB_PASS\"}",
        "- value: ~~\n  name: DB_PASS",
        "pgpass=~~ rootpw=~~ keystorePass=~~",
        "mypw: ~~ userpwd: ~~",
        "--pass ~~ --passwd=~~ --pw ~~ -pw=~~",
        "passDb: ~~ pass_db=~~ passwd_ftp=~~ pw_root: ~~ PwRoot: ~~",
        "<dbPass>~~</dbPass> <pwd_db>~~</pwd_db> <Pass>~~</Pass> <pw>~~</pw>",
        "?pass=~~&pw=~~&x=1",
        "smtp_pass => ~~; db_pass := '~~'; ldap_pw → ~~",
        "the password \"~~\" for ada; password `~~` wrong",
        "rejected password: '~~', passphrase ~~9 9",
        "Enter passphrase for key '/x/id':\n~~\nok",
        "Password: \n~~",
        "Vault password:\n\n~~",
        "--from-literal password=~~ --from-literal='x=purple tiger'",
        "zip -e -P ~~ x; 7z a -p~~; sudo -S <<<~~; gpg --passphrase ~~",
        "ada:~~@192.168.1.5:5432",
        "SecretStr(value='~~') Secret(\"~~\") SecretBytes(b'~~')",
        "MINIO_ROOT_PASSWORD ~~9",
        "| DB_PASS | ~~ |",
        "│ db_pass │ ~~ │",
        "| pgpass | ~~9 |",
        "DB_PASS -> ~~ HF_TOKEN -> ~~",
        "REDIS_PASS was ~~, db_pass is '~~'",
    ] {
        let out = redacted(&text.replace("~~", &secret));
        assert!(!out.contains(&secret), "{text}: {out}");
    }
}

#[test]
fn a_token_right_behind_a_word_goes_and_the_name_of_a_class_stays() {
    for (kind, form, beginning) in [
        ("Hugging Face", "hf_{c34}", 3),
        ("GitHub personal", "ghp_{a36}", 4),
        ("Groq", "gsk_{a52}", 4),
        ("Replicate", "r8_{a37}", 3),
        ("npm", "npm_{a36}", 4),
        ("GitLab personal", "glpat-{u20}", 6),
        ("DigitalOcean personal", "dop_v1_{h64}", 7),
        ("Google API", "AIza{u35}", 4),
    ] {
        let token = made(form);
        for before in ["x_", "TOKEN", "token", "HF_TOKEN_", "7"] {
            assert_gone(&token, beginning, &format!("see {before}{token}, step 7"), kind);
        }
    }
    let key = made("AKIA{U16}");
    assert_gone(&key, 4, &format!("see x_{key} and key{key}"), "AWS access key");
    for name in [
        "EAST_ASIANORTHEASTREGIONS FANTASIA0123456789ABCDEF",
        "my_hf_DebertaForSequenceClassificationWithHeads",
        "group_bidirectional_attention_over_every_token",
        "transformers.LlamaForSequenceClassificationWithPooling",
        "task-550e8400-e29b-41d4-a716-446655440000",
        "client_secret_manager_configuration_of_version_2",
        "canvas-0123456789abcdef0123456789abcdef01234567",
        "perf_0123456789abcdef0123456789abcdef",
    ] {
        assert_eq!(redacted(name), name);
    }
}

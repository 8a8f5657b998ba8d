//! Owns the kinds of tokens with a known beginning: which characters follow it, and how many make a token certain. Each
//! kind is one row.
//!
//! The forms are facts from the rule sets of gitleaks (commit b58d3f1 of 2026-07-22), betterleaks
//! (6381fa4 of 2026-07-23) and detect-secrets (5e14193 of 2026-04-02), and from what the providers
//! document; all checked 2026-11-22.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::random::{is_mixed, is_near_a_mark};

/// The characters that follow a kind's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Hex,
    Capitals,
    Letters,
    /// The same and `_`.
    Word,
    /// The same and `-`.
    Dashed,
    /// The same and `.`.
    Dotted,
    /// The characters of base64 and its variants, and the dots between parts.
    Base64,
    /// A hashed password with its settings.
    Crypt,
}

use Follows::{Base64, Capitals, Crypt, Dashed, Dotted, Hex, Letters, Word};

impl Follows {
    pub(super) fn has(self, byte: u8) -> bool {
        match self {
            Hex => byte.is_ascii_hexdigit(),
            Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Letters => byte.is_ascii_alphanumeric(),
            Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Dashed => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~' | b'%')
            }
            Crypt => byte.is_ascii_alphanumeric() || matches!(byte, b'$' | b'.' | b'/' | b'=' | b',' | b'+'),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) begins: &'static str,
    pub(super) follows: Follows,
    /// The number of following characters that make a secret in any case; fewer do if they look random.
    pub(super) sure: usize,
    /// Whether it counts only beside a word that marks a secret.
    pub(super) marked: bool,
}

const fn kind(_name: &str, begins: &'static str, follows: Follows, sure: usize) -> Kind {
    Kind { begins, follows, sure, marked: false }
}

const fn marked(_name: &str, begins: &'static str, follows: Follows, sure: usize) -> Kind {
    Kind { begins, follows, sure, marked: true }
}

/// The kinds. `sure` is a little below the documented length, so that a cut token is found as well.
#[rustfmt::skip]
pub(super) const KINDS: &[Kind] = &[
    // Models, training and inference.
    kind("Hugging Face user", "hf_", Letters, 28),
    kind("Hugging Face OAuth", "hf_oauth_", Dashed, 16),
    kind("Hugging Face JWT", "hf_jwt_", Base64, 16),
    kind("Hugging Face organization", "api_org_", Letters, 28),
    kind("OpenAI, DeepSeek, Kimi, Stability and others that copy it", "sk-", Dashed, 32),
    kind("OpenAI project", "sk-proj-", Dashed, 16),
    kind("OpenAI service account", "sk-svcacct-", Dashed, 16),
    kind("OpenAI admin", "sk-admin-", Dashed, 16),
    kind("OpenAI session", "sess-", Letters, 36),
    kind("OpenAI ephemeral", "ek_", Letters, 28),
    kind("Anthropic", "sk-ant-", Dashed, 16),
    kind("OpenRouter", "sk-or-v1-", Hex, 32),
    kind("LiteLLM and MiniMax", "sk-api-", Dashed, 32),
    kind("Langfuse secret", "sk-lf-", Dashed, 20),
    kind("Langfuse public", "pk-lf-", Dashed, 20),
    kind("Weights & Biases", "wandb_v1_", Word, 32),
    kind("Weights & Biases local", "local-", Hex, 40),
    kind("Replicate", "r8_", Letters, 30),
    kind("Groq", "gsk_", Letters, 32),
    kind("Google API", "AIza", Dashed, 30),
    kind("Google Gemini", "AQ.Ab8", Dashed, 32),
    kind("Google OAuth access", "ya29.", Base64, 20),
    kind("Google OAuth refresh", "1//0", Dashed, 32),
    kind("Google OAuth client", "GOCSPX-", Dashed, 20),
    kind("Google HMAC", "GOOG1E", Capitals, 30),
    kind("NVIDIA NGC and build", "nvapi-", Dashed, 24),
    kind("xAI", "xai-", Dashed, 32),
    kind("Perplexity", "pplx-", Letters, 24),
    kind("Fireworks", "fw_", Letters, 20),
    kind("Together", "tgp_v1_", Dashed, 24),
    kind("Cerebras", "csk-", Letters, 32),
    kind("Tavily", "tvly-", Dashed, 16),
    kind("Pinecone", "pcsk_", Word, 24),
    kind("LangSmith", "lsv2_", Word, 24),
    kind("LangSmith legacy", "ls__", Hex, 32),
    kind("RunPod", "rpa_", Letters, 28),
    kind("Modal token id", "ak-", Letters, 20),
    kind("Modal token secret", "as-", Letters, 20),
    kind("Lambda", "secret_", Word, 24),
    kind("ElevenLabs, Checkout, Clerk, Stripe secret", "sk_", Word, 24),
    kind("Jina", "jina_", Dashed, 24),
    kind("Voyage", "pa-", Dashed, 40),
    kind("Upstage", "up_", Letters, 28),
    kind("Baseten", "bst_", Letters, 24),
    kind("Friendli", "flp_", Letters, 32),
    kind("Nebius", "v1.CmM", Base64, 32),
    kind("LlamaCloud", "llx-", Letters, 32),
    kind("Roboflow", "rf_", Letters, 20),
    kind("Cursor", "key_", Hex, 48),
    kind("Vercel AI gateway", "vck_", Dashed, 32),
    kind("Devin", "apk_", Base64, 60),
    kind("E2B", "e2b_", Hex, 32),
    kind("Firecrawl", "fc-", Hex, 32),
    kind("Brave search", "BSA", Dashed, 24),
    kind("Apify", "apify_api_", Letters, 24),
    kind("Databricks", "dapi", Hex, 32),
    kind("Prefect user", "pnu_", Letters, 24),
    kind("Prefect bot", "pnb_", Letters, 24),
    kind("ClickHouse Cloud", "4b1d", Letters, 36),
    // Code and packages.
    kind("GitHub personal", "ghp_", Letters, 24),
    kind("GitHub OAuth", "gho_", Letters, 24),
    kind("GitHub user to server", "ghu_", Letters, 24),
    kind("GitHub server to server", "ghs_", Base64, 24),
    kind("GitHub refresh", "ghr_", Letters, 24),
    kind("GitHub fine-grained", "github_pat_", Word, 24),
    kind("GitLab personal", "glpat-", Dotted, 16),
    kind("GitLab runner", "glrt-", Dotted, 16),
    kind("GitLab runner registration", "glrtr-", Dotted, 16),
    kind("GitLab pipeline trigger", "glptt-", Dashed, 20),
    kind("GitLab deploy", "gldt-", Dashed, 16),
    kind("GitLab CI job", "glcbt-", Dotted, 16),
    kind("GitLab feed", "glft-", Dashed, 16),
    kind("GitLab feature flags", "glffct-", Dashed, 16),
    kind("GitLab incoming mail", "glimt-", Dashed, 16),
    kind("GitLab agent", "glagent-", Dashed, 24),
    kind("GitLab OAuth application", "gloas-", Dashed, 24),
    kind("GitLab SCIM", "glsoat-", Dashed, 16),
    kind("GitLab workspace", "glwt-", Dashed, 16),
    kind("GitLab registration", "GR1348941", Dashed, 16),
    kind("Bitbucket app password", "ATBB", Letters, 28),
    kind("Bitbucket repository", "ATCTT3", Base64, 32),
    kind("Atlassian API", "ATATT3", Base64, 32),
    kind("npm", "npm_", Letters, 30),
    kind("PyPI", "pypi-", Dashed, 40),
    kind("RubyGems", "rubygems_", Hex, 32),
    kind("crates.io", "cio", Letters, 32),
    kind("Clojars", "CLOJARS_", Letters, 40),
    kind("NuGet", "oy2", Letters, 43),
    kind("Artifactory API", "AKCp", Letters, 40),
    kind("Artifactory reference", "cmVmd", Letters, 48),
    kind("Docker Hub personal", "dckr_pat_", Dashed, 16),
    kind("Docker Hub organization", "dckr_oat_", Dashed, 16),
    kind("Docker Swarm join", "SWMTKN-1-", Dashed, 40),
    kind("Docker Swarm unlock", "SWMKEY-1-", Base64, 32),
    kind("Cloudsmith", "csa_", Letters, 30),
    kind("CircleCI", "CCIPAT_", Word, 32),
    kind("Buildkite", "bkua_", Letters, 32),
    kind("Sourcegraph", "sgp_", Word, 32),
    kind("SonarQube user", "squ_", Hex, 32),
    kind("SonarQube project", "sqp_", Hex, 32),
    kind("SonarQube analysis", "sqa_", Hex, 32),
    kind("Deno", "ddp_", Letters, 28),
    kind("Octopus Deploy", "API-", Capitals, 24),
    kind("Harness", "pat.", Dotted, 50),
    kind("Azure DevOps", "azdo_", Letters, 40),
    // Clouds.
    kind("AWS access key", "AKIA", Capitals, 12),
    kind("AWS temporary key", "ASIA", Capitals, 12),
    kind("AWS bearer key", "ABIA", Capitals, 12),
    kind("AWS context key", "ACCA", Capitals, 12),
    kind("AWS older key", "A3T", Capitals, 17),
    kind("AWS session", "IQoJb3JpZ2lu", Base64, 24),
    kind("AWS session, older", "FwoGZXIvYXdz", Base64, 24),
    kind("Amazon Bedrock", "ABSK", Base64, 60),
    kind("Amazon Bedrock, short-lived", "bedrock-api-key-", Base64, 16),
    kind("Alibaba", "LTAI", Letters, 12),
    kind("Alibaba STS", "STS.", Letters, 16),
    kind("Tencent", "AKID", Letters, 28),
    kind("DigitalOcean personal", "dop_v1_", Hex, 32),
    kind("DigitalOcean OAuth", "doo_v1_", Hex, 32),
    kind("DigitalOcean refresh", "dor_v1_", Hex, 32),
    kind("Heroku", "HRKU-", Dashed, 30),
    kind("Fly.io", "fo1_", Dashed, 32),
    kind("Fly.io macaroon 1", "fm1", Base64, 60),
    kind("Fly.io macaroon 2", "fm2_", Base64, 60),
    kind("Scalingo", "tk-us-", Dashed, 32),
    kind("Yandex IAM", "t1.", Base64, 60),
    kind("Yandex API", "AQVN", Dashed, 34),
    kind("Yandex static", "YCA", Dashed, 30),
    kind("Exoscale", "EXO", Letters, 24),
    kind("UpCloud", "ucat_", Letters, 20),
    kind("Render", "rnd_", Letters, 24),
    kind("Vercel personal", "vcp_", Dashed, 32),
    kind("Vercel app", "vca_", Dashed, 32),
    kind("Vercel integration", "vci_", Dashed, 32),
    kind("Vercel refresh", "vcr_", Dashed, 32),
    kind("Netlify", "nfp_", Letters, 32),
    kind("Cloudflare origin", "v1.0-", Dashed, 60),
    kind("Cloudflare API", "cfut_", Dashed, 24),
    kind("OpenShift", "sha256~", Dashed, 40),
    kind("Tailscale", "tskey-", Dashed, 16),
    kind("Pulumi", "pul-", Hex, 32),
    kind("HashiCorp Vault service", "hvs.", Dashed, 20),
    kind("HashiCorp Vault batch", "hvb.", Dashed, 20),
    kind("HashiCorp Vault recovery", "hvr.", Dashed, 20),
    marked("HashiCorp Vault, older", "s.", Letters, 24),
    marked("HashiCorp Vault batch, older", "b.", Letters, 24),
    kind("Doppler personal", "dp.pt.", Letters, 32),
    kind("Doppler service", "dp.st.", Dotted, 32),
    kind("Doppler CLI", "dp.ct.", Letters, 32),
    kind("Doppler service account", "dp.sa.", Letters, 32),
    kind("Doppler SCIM", "dp.scim.", Letters, 32),
    kind("Doppler audit", "dp.audit.", Letters, 32),
    kind("1Password service account", "ops_eyJ", Base64, 32),
    kind("1Password secret", "A3-", Dashed, 30),
    kind("age identity", "AGE-SECRET-KEY-", Capitals, 40),
    kind("age plugin identity", "AGE-PLUGIN-", Dashed, 32),
    kind("Infracost", "ico-", Letters, 28),
    kind("Scalr and Terraform", "tfe_", Letters, 24),
    kind("Temporal", "tmprl_", Dashed, 24),
    kind("Unkey", "unkey_", Letters, 20),
    kind("Zuplo", "zpka_", Word, 32),
    // Databases and monitoring.
    kind("MongoDB Atlas", "mdb_sa_sk_", Dashed, 24),
    kind("PlanetScale token", "pscale_tkn_", Base64, 24),
    kind("PlanetScale OAuth", "pscale_oauth_", Base64, 24),
    kind("PlanetScale password", "pscale_pw_", Base64, 24),
    kind("Neon", "napi_", Letters, 32),
    kind("Supabase management", "sbp_", Dashed, 32),
    kind("Supabase project", "sb_secret_", Dashed, 20),
    kind("CockroachDB", "CCDB1_", Word, 32),
    kind("DataStax Astra", "AstraCS:", Base64, 20),
    kind("Elastic Cloud", "essu_", Base64, 32),
    kind("Grafana service account", "glsa_", Word, 24),
    kind("Grafana Cloud", "glc_", Base64, 24),
    kind("Sentry user", "sntryu_", Hex, 32),
    kind("Sentry organization", "sntrys_", Base64, 24),
    kind("Sentry application", "sntrya_", Hex, 32),
    kind("New Relic user", "NRAK-", Letters, 20),
    kind("New Relic insert", "NRII-", Dashed, 20),
    kind("New Relic browser", "NRJS-", Letters, 16),
    kind("New Relic REST", "NRRA-", Letters, 20),
    kind("Dynatrace", "dt0c01.", Dotted, 40),
    kind("Dynatrace platform", "dt0s16.", Dotted, 40),
    kind("PostHog personal", "phx_", Dashed, 32),
    kind("PostHog project", "phc_", Dashed, 32),
    kind("Rootly", "rootly_", Hex, 32),
    kind("LaunchDarkly API", "api-", Dashed, 36),
    kind("LaunchDarkly SDK", "sdk-", Dashed, 36),
    kind("ConfigCat", "configcat-sdk-1/", Base64, 32),
    kind("DevCycle", "dvc_server_", Word, 16),
    // Messages, documents, money.
    kind("Slack bot", "xoxb-", Dashed, 8),
    kind("Slack user", "xoxp-", Dashed, 8),
    kind("Slack legacy", "xoxo-", Dashed, 8),
    kind("Slack session", "xoxs-", Dashed, 8),
    kind("Slack workspace", "xoxa-", Dashed, 8),
    kind("Slack refresh", "xoxr-", Dashed, 8),
    kind("Slack configuration", "xoxe", Dotted, 16),
    kind("Slack cookie", "xoxd-", Base64, 20),
    kind("Slack client", "xoxc-", Dashed, 20),
    kind("Slack app", "xapp-", Dashed, 8),
    kind("Twilio API", "SK", Hex, 32),
    kind("Twilio account", "AC", Hex, 32),
    kind("SendGrid", "SG.", Dotted, 30),
    kind("Mailgun", "key-", Hex, 32),
    kind("Mailgun public", "pubkey-", Hex, 32),
    kind("MailerSend", "mlsn.", Letters, 30),
    kind("Brevo", "xkeysib-", Dashed, 40),
    kind("Brevo SMTP", "xsmtpsib-", Dashed, 40),
    kind("Resend", "re_", Word, 30),
    kind("Stripe restricted", "rk_", Word, 20),
    kind("Stripe, ClickUp and Klaviyo", "pk_", Word, 24),
    kind("Stripe webhook", "whsec_", Base64, 24),
    kind("Square access", "EAAA", Dashed, 40),
    kind("Facebook", "EAAC", Letters, 60),
    kind("Facebook page", "EAAM", Letters, 60),
    kind("Square OAuth", "sq0atp-", Dashed, 20),
    kind("Square secret", "sq0csp-", Dashed, 32),
    kind("PayPal Braintree", "access_token$production$", Dotted, 32),
    kind("Shopify access", "shpat_", Hex, 24),
    kind("Shopify custom app", "shpca_", Hex, 24),
    kind("Shopify private app", "shppa_", Hex, 24),
    kind("Shopify shared secret", "shpss_", Hex, 24),
    kind("Shopify partner", "shptka_", Hex, 24),
    kind("Flutterwave secret", "FLWSECK_TEST-", Dashed, 12),
    kind("Flutterwave public", "FLWPUBK_TEST-", Dashed, 24),
    kind("EasyPost", "EZAK", Letters, 40),
    kind("EasyPost test", "EZTK", Letters, 40),
    kind("Shippo", "shippo_live_", Hex, 32),
    kind("Shippo test", "shippo_test_", Hex, 32),
    kind("Duffel", "duffel_live_", Base64, 32),
    kind("Duffel test", "duffel_test_", Base64, 32),
    kind("Postman", "PMAK-", Dashed, 32),
    kind("Linear", "lin_api_", Letters, 28),
    kind("Linear OAuth", "lin_oauth_", Letters, 28),
    kind("Notion", "ntn_", Letters, 32),
    kind("Airtable", "pat", Dotted, 70),
    kind("Asana", "1/1", Base64, 40),
    kind("Figma", "figd_", Dashed, 24),
    kind("Typeform", "tfp_", Base64, 40),
    kind("ReadMe", "rdme_", Letters, 40),
    kind("Frame.io", "fio-u-", Base64, 32),
    kind("Adobe", "p8e-", Letters, 28),
    kind("Mapbox secret", "sk.eyJ", Base64, 20),
    kind("Mapbox public", "pk.eyJ", Base64, 20),
    kind("Dropbox, short-lived", "sl.", Base64, 60),
    kind("Plaid", "access-production-", Dashed, 30),
    kind("Plaid sandbox", "access-sandbox-", Dashed, 30),
    kind("Defined Networking", "dnkey-", Dashed, 40),
    kind("SettleMint", "sm_pat_", Letters, 14),
    kind("SettleMint application", "sm_aat_", Letters, 14),
    kind("SettleMint service", "sm_sat_", Letters, 14),
    kind("Intra42", "s-s4t2", Dashed, 40),
    kind("Aikido", "AIK_", Word, 24),
    kind("Ionic", "ion_", Letters, 36),
    kind("Canva", "cnvca", Dashed, 44),
    kind("Samsara", "samsara_api_", Letters, 20),
    kind("WakaTime", "waka_", Dashed, 32),
    kind("Paddle", "pdl_live_apikey_", Word, 32),
    kind("Polar", "polar_", Word, 32),
    kind("OneSignal", "os_v2_", Word, 60),
    kind("Pinterest", "pina_", Dashed, 32),
    kind("Lichess", "lip_", Word, 18),
    kind("Mergify", "mergify_application_key_", Dashed, 24),
    kind("Ramp", "ramp_sec_", Letters, 24),
    kind("Contentful", "CFPAT-", Dashed, 32),
    kind("HubSpot", "pat-na1-", Dashed, 24),
    kind("HubSpot 2", "pat-na2-", Dashed, 24),
    kind("HubSpot EU", "pat-eu1-", Dashed, 24),
    kind("HubSpot AP", "pat-ap1-", Dashed, 24),
    kind("Razorpay", "rzp_live_", Letters, 12),
    kind("Razorpay test", "rzp_test_", Letters, 12),
    kind("Flutterwave live secret", "FLWSECK-", Dashed, 24),
    kind("Flutterwave live public", "FLWPUBK-", Dashed, 24),
    kind("Kaggle", "KGAT_", Hex, 24),
    kind("Infisical", "st.", Dotted, 80),
    kind("Scaleway", "SCW", Capitals, 17),
    // Forms that many share.
    kind("JSON in base64: JWTs, Grafana's older keys, CloudFront's policies", "eyJ", Base64, 20),
    kind("a JWT once more in base64", "ZXlK", Base64, 32),
    kind("an SSH key (RSA)", "AAAAB3NzaC1", Base64, 32),
    kind("an SSH key (Ed25519)", "AAAAC3NzaC1", Base64, 32),
    kind("an SSH key (ECDSA)", "AAAAE2VjZHNh", Base64, 32),
    kind("a password of crypt (bcrypt)", "$2", Crypt, 50),
    kind("a password of crypt (SHA-512)", "$6$", Crypt, 40),
    kind("a password of yescrypt", "$y$", Crypt, 40),
    kind("a password of Argon2", "$argon2", Crypt, 40),
    kind("a password of Jupyter", "argon2:$", Crypt, 40),
    kind("a password of htpasswd", "$apr1$", Crypt, 24),
];

static BEGINNINGS: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(KINDS.iter().map(|kind| kind.begins)).ok());

/// With fewer following characters it is a name: `hf_hub`, `sk-learn`.
const FEWEST: usize = 10;

/// Adds the ranges of such tokens in a text.
pub(super) fn find(text: &str, places: &mut Vec<Range<usize>>) {
    let Some(beginnings) = BEGINNINGS.as_ref() else { return };
    let bytes = text.as_bytes();
    let mut until = 0;
    for found in beginnings.find_overlapping_iter(text) {
        let Some(kind) = KINDS.get(found.pattern().as_usize()) else { continue };
        if found.start() < until || !begins_a_word(text, found.start()) {
            continue;
        }
        let behind = bytes.get(found.end()..).unwrap_or_default();
        // Only the characters that decide are read. Otherwise a text of many beginnings would be read once for each.
        let length = behind.iter().take(kind.sure).take_while(|byte| kind.follows.has(**byte)).count();
        let run = behind.get(..length).unwrap_or_default();
        let is_one = length >= kind.sure || length >= FEWEST && kind.sure < SAFE && is_mixed(run);
        if !is_one || kind.marked && !is_near_a_mark(text, found.start()..found.end() + length) {
            continue;
        }
        // All that follows without a break belongs to the token.
        let rest = behind.iter().take_while(|byte| kind.follows.has(**byte) || Dashed.has(**byte)).count();
        let end = found.end() + rest - ends_a_sentence(behind.get(..rest).unwrap_or_default());
        until = end;
        places.push(found.start()..end);
    }
}

/// Kinds with this many certain characters have beginnings too short to be told by fewer.
const SAFE: usize = 48;

/// The number of punctuation marks at the end that belong to the sentence.
fn ends_a_sentence(run: &[u8]) -> usize {
    run.iter().rev().take_while(|byte| matches!(**byte, b'.' | b',' | b'/' | b'%')).count()
}

/// Whether a word begins here. An escape sequence before it (`\n`, `%3D`) does not belong to the word.
fn begins_a_word(text: &str, at: usize) -> bool {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    match before {
        [.., b'\\', b'n' | b't' | b'r'] => true,
        [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => true,
        [.., last] => !last.is_ascii_alphanumeric() && *last != b'_',
        [] => true,
    }
}

#[cfg(test)]
mod tests;

//! Owns what is held of secrets: which go, and what beside them stays.

use super::*;
use crate::effort;
use crate::report::redact::table::parsed;

#[test]
fn every_table_parses() {
    parsed::<Vec<Pattern<true>>>("secrets").unwrap();
    parsed::<Vec<kinds::Kind>>("kinds").unwrap();
    parsed::<random::Table>("random").unwrap();
    let named = parsed::<named::Table>("named").unwrap();
    assert!(named.rules.iter().all(|rule| named.values.contains_key(&rule.value)));
}

#[test]
fn secrets_go_and_their_names_stay() {
    for (text, want) in [
        ("login with hf_abcdEFGH12345678ijklMNOP now", "login with [redacted] now"),
        ("key sk-proj-abc123DEF456ghi789.", "key [redacted]."),
        ("ghp_abcdefghij0123456789abcdefghij012345", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = [redacted]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
        ("curl -H 'Authorization: Basic YWRhOnB3'", "curl -H 'Authorization: Basic [redacted]'"),
        ("pip --index https://bob:s3cret@pypi.local/simple", "pip --index https://[redacted]@pypi.local/simple"),
        ("vllm serve m --api-key letmein --port 80", "vllm serve m --api-key [redacted] --port 80"),
        ("vllm serve m --api-key=letmein", "vllm serve m --api-key=[redacted]"),
        ("x --hf_token 'a b' y", "x --hf_token [redacted] y"),
        ("export WANDB_API_KEY=0123456789abcdef", "export WANDB_API_KEY=[redacted]"),
        ("MY_TOKEN=x SSH_KEY=\"y z\" python t.py", "MY_TOKEN=[redacted] SSH_KEY=[redacted] python t.py"),
        ("{\"api_key\": \"abc\", \"n\": 1}", "{\"api_key\": [redacted], \"n\": 1}"),
        ("password: hunter2", "password: [redacted]"),
        ("mot de passe: hunter2", "mot de passe: [redacted]"),
        (
            "headers [('Authorization', 'Token abc123def'), ('X', '1')]",
            "headers [('Authorization', 'Token [redacted]'), ('X', '1')]",
        ),
        ("key 01234567-89ab-cdef-0123-456789abcdef:0123456789abcdef0123456789abcdef", "key [redacted]"),
        ("key 0123456789abcdef0123456789abcdef-01234567-89abcdef.", "key [redacted]."),
        ("key 0123456789abcdef0123456789abcdef.AbCdEfGh12345678,", "key [redacted],"),
        ("key ms-01234567-89ab-cdef-0123-456789abcdef", "key [redacted]"),
        ("api_keys: [\"abcde\", 'fghij']", "api_keys: [redacted]"),
        ("\"api_keys\": [\n  \"abcde\",\n  \"fghij\"\n],", "\"api_keys\": [\n  [redacted]\n  [redacted]\n],"),
        ("'credentials': ('ada', 'pw4321')", "'credentials': ([redacted])"),
        ("launch(auth=[(\"ada\", \"pw1234\")])", "launch(auth=[([redacted])])"),
        ("smtp=('smtp.host', 25, 'ada', 'pw9999')", "smtp=([redacted])"),
        ("DB_PASSWORD=abc\\ def x", "DB_PASSWORD=[redacted] x"),
        ("&quot;password&quot;: &quot;x y&quot;", "&quot;password&quot;: &quot;[redacted]&quot;"),
        ("'licence_key': 'ABCD-1234-EFGH'", "'licence_key': [redacted]"),
        ("psk=\"two words\"", "psk=[redacted]"),
        ("sha1:6e3c67ab5f3c:0123456789abcdef0123456789abcdef01234567", "[redacted]"),
        ("on public URL: https://1a2b3c4d5e.gradio.live", "on public URL: https://[redacted].gradio.live"),
        ("https://words-only.eu.ngrok.io", "https://[redacted].ngrok.io"),
        ("secret:\n  - abc\n  - def\nn: 1", "secret:\n  [redacted]\n  [redacted]\nn: 1"),
        ("api_keys:\n  openai: abc\nn: 1", "api_keys:\n  [redacted]\nn: 1"),
        ("GET /v1?access_token=abc&n=1", "GET /v1?access_token=[redacted]&n=1"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1", "[redacted]"),
    ] {
        assert_eq!(left_out(text), want);
    }
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    assert_eq!(
        left_out(&format!("-----BEGIN PRIVATE KEY-----\n{body}\nab==\nx")),
        "-----BEGIN PRIVATE KEY-----\n[redacted]\n[redacted]\nx"
    );
}

#[test]
fn a_token_that_a_terminal_wrapped_goes_on_both_lines() {
    let text = format!("{} hf_abcdEF\nGH12345678 and more\npython train.py", "x".repeat(60));
    assert_eq!(left_out(&text), format!("{} [redacted]\n[redacted] and more\npython train.py", "x".repeat(60)));
}

/// Of each, the secret is what holds "zq".
#[test]
fn no_part_of_a_value_is_left() {
    for text in [
        "llama-server --api-key KzqY1,KzqY2 --port 80",
        "llama-server --api-key=KzqY1,KzqY2;zq",
        "mysql --password a;zq",
        "mysql --password 'a,b;zq'zq",
        "mysql --password a)zq]zq}zq'zq",
        "DB_PASSWORD=a;zq,zq python t.py",
        "db_password=a;zq",
        "vllm serve m --api-key zq1 zq2 zq3 --port 80",
        "vllm serve m --api-key zq1 'zq2'",
        "vllm serve m --api-key \\\n  zq1 \\\n  --port 80",
        "args: [\"--api-key\", \"zq1\", \"zq2\", \"--port\", \"80\"]",
        "args: ['--hf-token','zq']",
        "args {'api_key': ['zq1', 'zq2'], 'port': 80}",
        "HF_TOKEN=hf_abcdEFGH12345678,zq",
        "--api-key sk-abcdEFGH12345678,zq",
        "jupyter lab --ServerApp.token=zq --port=80",
        "jupyter lab --ServerApp.token zq",
        "--token 123zq",
        "\"hf_token\": \"onlyletterszq\"",
        "{\\\"hf_token\\\": \\\"onlyletterszq\\\"}",
        "token: zq",
        "wandb login 0123456789abcdef0123456789abcdef0123zqzq",
        "wandb login --relogin 0123456789abcdef0123456789abcdef0123zqzq",
        "wandb.login(key='zq')",
        "wandb: Paste an API key from your profile and hit enter, or press ctrl+c to quit: 0123456789abcdef0123456789abcdef0123zqzq",
        "curl -u u:zq https://x",
        "curl -sSu 'u:zq' https://x",
        "curl -s \\\n -uu:zq https://x",
        "curl --user u:zq https://x",
        "sshpass -p zq ssh box",
        "sshpass -pzq ssh box",
        "MYSQL_PWD=zq mysqldump",
        "AccountName=x;AccountKey=abc/zq==;EndpointSuffix=core",
        "{\"name\":\"HF_TOKEN\",\"value\":\"zq\"}",
        "- name: HF_TOKEN\n  value: zq",
        "{\\\"name\\\":\\\"S3_KEY\\\",\\\"value\\\":\\\"zq\\\"}",
        "https://hooks.slack.com/services/T000/B000/zq",
        "https://discord.com/api/webhooks/12/zq",
        "xapp-1-A0-1-zq",
        "lsv2_pt_0123zq_0123",
        "pcsk_0123456_zq",
        "SG.0123456789abcdef.zq",
        "git clone https://bob:p@ss@zq@host.org/x",
        "os.environ['WANDB_API_KEY'] = '0123456789abcdefzq'",
        "os.environ[\"HUGGING_FACE_HUB_TOKEN\"]=\"zq\"",
        "    os.environ['OPENAI_API_KEY'] = f'zq'",
        "os.environ[\"DB_PASS\"] = 'zq'; x['S3_KEY']='zq'",
        "os.environ.setdefault('HF_TOKEN', 'zq'); os.putenv(\"DB_PASS\", \"zq\")",
        "ENV OPENAI_API_KEY2=zq\nENV HF_TOKEN zq",
        "self.password: str = 'zq'",
        "api_key: Optional[str] = \"zq\", token: str | None = 'zq', secret: SecretStr='zq'",
        "password: Login.Password = 'zq'",
        "if token == \"zq\" and password != 'zq':",
        "Namespace(lr=1, wandb_key='0123456789abcdef0123456789abcdef012345zq')",
        "--wandb_key 0123456789abcdef0123456789abcdef012345zq",
        "{\"username\":\"yolanda\",\"key\":\"0123456789abcdef0123456789abzq01\"}",
        "{'key': '0123456789abcdef0123456789abzq01'}",
        "--license-file x --ssl-key 0123456789abcdef0123456789zq",
        "mysql -u root -pHunter3zq db",
        "mysqldump -h h -p'a zq' db",
        "docker login -u victor -p zq registry",
        "docker login --username victor \\\n  -p zq",
        "redis-cli -h h -a zq",
        "machine api.wandb.ai login user password zq",
        "openssl rsa -passin pass:zq",
        "AKIAIOSFODNN7EXAMPLE wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKzq",
        "AKIAIOSFODNN7EXAMPLE / secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKzq",
        "AKIAIOSFODNN7EXAMPLE\nwJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKzq",
        "AWS Secret Access Key [None]: zq",
        "the passphrase is correct-horse-zq",
        "password for xavier: zq",
        "Your API key is: zq",
        "os.environ [ \"WANDB_API_KEY\" ] = \"zq\"",
        "huggingface_hub.login(\"zq\")",
        "echo zq | sudo -S apt update",
        "echo 'zq' | docker login -u victor --password-stdin",
        "token = os.environ.get('HF_TOKEN', 'zq')",
        "PASS=zq; db_pwd = 'zq', pwd: zq",
        "\"auth\": \"dmljdG9yOmh1bnRlcg0zq==\"",
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\nshortzq==\n-----END RSA PRIVATE KEY-----",
    ] {
        assert!(!left_out(text).contains("zq"), "{text}: {}", left_out(text));
        assert_eq!(left_out(text).lines().count(), text.lines().count(), "{text}");
    }
}

#[test]
fn a_value_of_yaml_goes_with_all_lines_below_its_key() {
    for sign in ["|", ">", "|-", ">2+", "!!str |", "| # from the vault"] {
        let text = format!(
            "db:\n  password: {sign}\n    correct horse\n\n    battery\n  user: ada\nenv:\n- name: DB_PASS\n  value: {sign}\n    hunter\n\
             - token: {sign}\n    abc\nHF_TOKEN: {sign}\n def\nnext: step 7\n"
        );
        let left = left_out(&text);
        for secret in ["correct", "horse", "battery", "hunter", "abc", "def"] {
            assert!(!left.contains(secret), "{secret} of {sign}\n{left}");
        }
        assert_eq!(left.lines().count(), text.lines().count(), "{left}");
        for kept in ["  password: ", "  user: ada\n", "- name: DB_PASS\n", "next: step 7\n"] {
            assert!(left.contains(kept), "{kept}\n{left}");
        }
    }
    let prefixed = "train-1  | conf:\n\
        train-1  |   password: |\ntrain-1  |     -correct\ntrain-1  |\ntrain-1  |     <horse>\ntrain-1  |   user: ada\n";
    let want = prefixed.replace("-correct", "[redacted]").replace("<horse>", "[redacted]");
    assert_eq!(left_out(prefixed), want.replace("password: |", "password: [redacted]"));
    let other = "command: |\n  python train.py\nkey: |\n  a table of three rows\n";
    assert_eq!(left_out(other), other);
}

#[test]
fn keys_of_yaml_are_read_once_within_each_other_and_on_one_line() {
    let nested: String = (0..400).map(|at| format!("{}password: |\n", " ".repeat(at))).collect();
    for text in [nested, "password: | # ".repeat(4000) + "\n  x\n", "password: |\n\n\n\n".repeat(4000)] {
        let effort = effort::of(|| left_out(&text));
        assert!(effort > 0 && effort < 60 * text.len(), "{effort} bytes for {}", text.len());
    }
}

#[test]
fn passwords_go_behind_the_word_of_any_script() {
    for (text, want) in [
        ("пароль: hunter", "пароль: [redacted]"),
        ("Пароль от базы: hunter", "Пароль от базы: [redacted]"),
        ("ПАРОЛЬ=hunter", "ПАРОЛЬ=[redacted]"),
        ("\"密码\": \"hunter\"", "\"密码\": [redacted]"),
        ("数据库密碼：hunter", "数据库密碼：[redacted]"),
        ("密码是hunter22x", "密码是[redacted]"),
        ("パスワード：hunter", "パスワード：[redacted]"),
        ("パスワードは hunter22x です", "パスワードは [redacted] です"),
        ("비밀번호: hunter", "비밀번호: [redacted]"),
        ("비밀번호 = hunter", "비밀번호 = [redacted]"),
        ("كلمة المرور: hunter", "كلمة المرور: [redacted]"),
        ("Пароль пользователя ada: hunter", "Пароль пользователя ada: [redacted]"),
        ("密码为：hunter", "密码为：[redacted]"),
        ("password（密码）: hunter", "password（密码）: [redacted]"),
        ("パスワードを入力してください: hunter", "パスワードを入力してください: [redacted]"),
        ("비밀번호를 입력하세요: hunter", "비밀번호를 입력하세요: [redacted]"),
        ("mật khẩu: hunter", "mật khẩu: [redacted]"),
        ("Hasło: hunter", "Hasło: [redacted]"),
        ("API密钥：abc123def456", "API密钥：[redacted]"),
        ("токен: abc123def456", "токен: [redacted]"),
    ] {
        assert_eq!(left_out(text), want);
    }
    for text in [
        "неверный пароль",
        "密码是错误的",
        "密码错误: connection refused",
        "токен: 128",
        "パスワードが違います",
        "비밀번호가 틀립니다",
        "ключ: имя",
    ] {
        assert_eq!(left_out(text), text);
    }
}

#[test]
fn what_stands_beside_a_secret_stays() {
    for (text, want) in [
        ("vllm serve m --api-key k1 k2 --port 80", "vllm serve m --api-key [redacted] --port 80"),
        ("sh -c 'serve --api-key k1 k2' && python t.py", "sh -c 'serve --api-key [redacted]' && python t.py"),
        ("[\"HF_TOKEN=abc\",\"B=2\"]", "[\"HF_TOKEN=[redacted]\",\"B=2\"]"),
        ("(HF_TOKEN=abc) HF_TOKEN=abc; python", "(HF_TOKEN=[redacted]) HF_TOKEN=[redacted]; python"),
        ("--api-key --token abc --port 80", "--api-key --token [redacted] --port 80"),
        ("{\"name\":\"HF_TOKEN\",\"value\":\"x\"},{", "{\"name\":\"HF_TOKEN\",\"value\":[redacted]},{"),
        ("curl -u u:p https://x/y", "curl -u [redacted] https://x/y"),
        ("wandb: ERROR API key must be 40 characters", "wandb: ERROR API key must be 40 characters"),
        ("waiting\n3f786850e387550fdab836ed7e6dc881de23001b\nok", "waiting\n[redacted]\nok"),
        ("https://hooks.slack.com/services/T0/B0/x failed", "https://hooks.slack.com/[redacted] failed"),
    ] {
        assert_eq!(left_out(text), want.replace("hooks.slack.com/[", "hooks.slack.com/services/["));
    }
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    for text in [
        "vllm serve m --max-num-batched-tokens 8192 --tokenizer-mode auto --max-tokens 5",
        "print_info: EOS token        = 128009 '<|eot_id|>'",
        "print_info: FIM PRE token    = 151659 '<|fim_prefix|>'",
        "eos_token: <|endoftext|>, 12.34 ms per token, 81.0 tokens per second",
        "\"pad_token\": \"<pad>\", \"decoder_start_token\": \"x\", eosToken=abc, time per token: 12 ms, ms/token=3",
        "multi-token prediction, next-token loss, \"has_next_token\":true, \"next_token\":{\"n\":1}",
        "Namespace(api_key=None, token=True)",
        "--eos-token 2 --pad-token <pad>",
        "from huggingface_hub import hf_hub_download; hf_transfer; hf_quantizer_base",
        "PWD=/srv OLDPWD=/x PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True CUDA_VISIBLE_DEVICES=0",
        "docker run -u 1000:1000 image@sha256:0123456789abcdef, PID@START 4242@162083, python -u t.py",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB.",
        "the password is required. The token is invalid; passphrase was wrong!",
        "def login(password: str, token: Optional[str], api_key: SecretStr)",
        "key: layer_12_attention_weight, \"key\": \"model.layers.0.self_attn\", --key name, cache_key=(3, 128)",
        "KeyError: 'model.embed_tokens.weight', primary_key = id, key=lambda x: x, query/key/value: 4096",
        "Client(address, authkey=process.current_process().authkey, token=args.token, api_key=os.environ['HF_TOKEN'])",
        "pwd: /srv/x; PWD=/srv, echo x | tee y, --auth none, forward_pass = 3",
        "-----BEGIN x\n-----END x\nabcdef",
        "missing_keys: 12, KeyError: 'key', {\"name\":\"gpu\",\"value\":\"3\"}",
        "https://pypi.org/simple and https://huggingface.co/a/b@main",
        "at commit 3f786850e387550fdab836ed7e6dc881de23001b, snapshots/3f786850e387550fdab836ed7e6dc881de23001b/x",
        "torch 2.11\nRevision:\n3f786850e387550fdab836ed7e6dc881de23001b",
    ] {
        assert_eq!(left_out(text), text);
    }
}

/// Hashes, checkpoints, ids of runs, names of kernels and of models: what a diagnosis is read by.
#[test]
fn ordinary_logs_stay_readable() {
    let hex = "0123456789abcdef0123456789abcdef01234567";
    for text in [
        format!("commit {hex} (HEAD -> main)\nwandb: run id 0123456789abcdef0123456789abcdef"),
        format!("wandb: Tracking run with wandb version 0.17.0, git commit {hex}"),
        format!("models--meta-llama--Llama-3.1-8B/snapshots/{hex}/config.json\nlogin"),
        format!("image@sha256:{hex}012345678901234567890123, container {hex}, {hex}  model.safetensors"),
        "GPU-8f3b1c2a-1234-5678-9abc-def012345678 MIG-8f3b1c2a-1234-5678-9abc-def012345678".to_owned(),
        "checkpoint-12000 wandb/run-20261122_101010-1a2b3c4d seed=1234567890 chatcmpl-0123456789abcdef".to_owned(),
        "max_new_tokens=512 token: 128 eos_token_id: 2 <|endoftext|> tokenizer.ggml.tokens arr[str,128256]".to_owned(),
        "Missing key(s) in state_dict: \"model.layers.0.weight\"; pass 1 of 3, forward pass: 12.3 ms".to_owned(),
        "secret sharing: a scheme, session: 12, signature: (x: Tensor) -> Tensor, HF_TOKEN is not set".to_owned(),
        "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8 MiniMaxM3VLTextConfig".to_owned(),
        "_ZN3c104cuda20CUDACachingAllocator9allocatorE + 0x7f3117e6c0c5 void at::native::Fill<4, c10::BFloat16>"
            .to_owned(),
        "sk-learn-1.2 sk_model_v2 pk_field_name ak-sweep as-is key-value hf_transfer secret_manager".to_owned(),
        "torch.compile cache key 0123456789abcdef0123456789abcdef of /opt/conda/lib/python3/site/packages/torch/x"
            .to_owned(),
        "HF_TOKEN=$HF_TOKEN --token ${TOKEN} password: <your password> api_key=****".to_owned(),
    ] {
        assert_eq!(left_out(&text), text);
    }
    let demo = include_str!("../../../../assets/demo.log");
    assert_eq!(left_out(demo), demo);
}

/// However often a line begins something, it is read a fixed number of times.
#[test]
fn one_long_line_of_beginnings_is_read_once() {
    for piece in [
        "hf_ sk- ",
        "token=[",
        "-----BEGIN KEY",
        "wandb 0123456789abcdef0123456789abcdef ",
        "sk-",
        "curl -u ",
        "token='\"",
    ] {
        let text = piece.repeat((1 << 16) / piece.len());
        assert!(!left_out(&text).is_empty());
    }
}

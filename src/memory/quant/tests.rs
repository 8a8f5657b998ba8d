//! Owns the published sizes of files that the mixes are held to.

use super::*;
use crate::memory::table as models;

/// Files as published, in bytes: of bartowski, Unsloth (`UD-`, Qwen3, Gemma 4), Qwen, Microsoft and ggml-org, as two
/// catalogues of them have it (stored public files 61492418159 of exact sizes; 55298657421, 61304471046, 67452053153 and
/// 71626018272 of rounded ones), 2026-11-21.
const PUBLISHED: [(&str, &str); 16] = [
    (
        "Llama-3.1-8B",
        "IQ2_M 2948285856, IQ3_M 3784828320, IQ3_XS 3518752160, IQ4_NL 4677993888, IQ4_XS 4447667616,
        Q2_K 3179136416, Q2_K_L 3692160416, Q3_K_L 4321961376, Q3_K_M 4018922912, Q3_K_S 3664504224,
        Q3_K_XL 4781630880, Q4_0 4661216672, Q4_K_L 5310637472, Q4_K_M 4920739232, Q4_K_S 4692673952,
        Q5_K_L 6057223584, Q5_K_M 5732992416, Q5_K_S 5599298976, Q6_K 6596011424, Q6_K_L 6850471328,
        Q8_0 8540775840, F32 32128885888",
    ),
    (
        "Mistral-7B",
        "IQ1_M 1757663456, IQ1_S 1615319264, IQ2_M 2504249568, IQ2_S 2314457312, IQ2_XS 2201473248,
        IQ2_XXS 1994903776, IQ3_M 3288846560, IQ3_S 3186348256, IQ3_XXS 2830880992, Q2_K 2722877664,
        Q3_K_M 3522941152",
    ),
    (
        "phi-4",
        "Q4_1 9267499200, Q4_K_M 9053114560, Q4_K_S 8440762560, Q5_0 10151579840,
        Q5_1 11035660480, TQ1_0 3591098560, BF16 29323399360",
    ),
    (
        "Qwen2.5-7B",
        "Q2_K 3015940000, Q4_0 4431390848, IQ2_M 2780342240, IQ3_XS 3346255840, Q3_K_XL 4565331936,
        Q4_K_L 5087563744",
    ),
    ("Qwen2.5-32B", "Q2_K 12313098432, Q3_K_M 15935047872, Q4_K_M 19851335872, Q5_0 22638254272"),
    ("SmolLM2-1.7B", "IQ3_M 810243040, IQ3_XS 739070944, Q2_K_L 698962912, Q4_K_M 1055609824"),
    ("gpt-oss-20b", "MXFP4 12109566624"),
    ("gpt-oss-120b", "MXFP4 63387346208"),
    (
        "Qwen3-30B-A3B",
        "IQ4_NL 17310782016, IQ4_XS 16378073664, Q2_K 11258610240, Q3_K_M 14711847488,
        Q3_K_S 13292468800, Q4_0 17379988032, Q4_1 19192500800, Q4_K_M 18556686912, Q4_K_S 17456009792,
        Q5_K_M 21725581888, Q5_K_S 21080511040, Q6_K 25092532800, Q8_0 32483932736, UD-IQ1_M 9666859584,
        UD-IQ1_S 9043300928, UD-IQ2_M 10865578560, UD-IQ2_XXS 10362262080, UD-IQ3_XXS 12888085056,
        UD-Q2_K_XL 11814277696, UD-Q3_K_XL 13833048640, UD-Q4_K_XL 17715663424, UD-Q5_K_XL 21740302912,
        UD-Q6_K_XL 26340325952, UD-Q8_K_XL 35989944896, UD-TQ1_0 8005213344",
    ),
    (
        "Qwen3-32B",
        "IQ4_NL 18679495328, IQ4_XS 17714805408, Q2_K 12344652448, Q3_K_M 15971778208,
        Q3_K_S 14389739168, Q4_1 20636523168, Q4_K_M 19762150048, Q4_K_S 18771245728,
        Q5_K_M 23214832288, Q6_K 26883307168, Q8_0 34817719968, UD-IQ1_M 8302084768,
        UD-IQ1_S 7738884768, UD-IQ2_M 11553366688, UD-IQ2_XXS 9277096608, UD-IQ3_XXS 12967551648,
        UD-Q2_K_XL 12797352608, UD-Q3_K_XL 16403102368, UD-Q4_K_XL 20021713568, UD-Q5_K_XL 23233551008,
        UD-Q6_K_XL 28961586848, UD-Q8_K_XL 39481015968",
    ),
    (
        "Qwen3-8B",
        "Q2_K 3281734144, Q4_1 5247756800, Q4_K_M 5027785216, UD-IQ1_M 2390985216, UD-IQ1_S 2268695040,
        UD-IQ2_M 3110504960, UD-IQ2_XXS 2601683456, UD-IQ3_XXS 3410266624, UD-Q2_K_XL 3501976064,
        UD-Q3_K_XL 4313737728, UD-Q4_K_XL 5122746880, UD-Q5_K_XL 5883587072, UD-Q6_K_XL 7490550272,
        UD-Q8_K_XL 10824038912",
    ),
    (
        "Llama-3.2-3B",
        "Q2_K 1363935680, Q4_K_M 2019377600, UD-IQ1_M 960416192, UD-IQ1_S 912345536, UD-IQ2_M 1256262080,
        UD-IQ2_XXS 1046579648, UD-IQ3_XXS 1370147264, UD-Q2_K_XL 1403380160, UD-Q3_K_XL 1742430656,
        UD-Q4_K_XL 2060886464, UD-Q5_K_XL 2327781824, UD-Q6_K_XL 2967833024, UD-Q8_K_XL 4204153280",
    ),
    (
        "Gemma-4-26B-A4B",
        "Q8_0 26900000000, UD-IQ2_XXS 9880000000, UD-IQ2_M 9970000000,
        UD-Q2_K_XL 10500000000, UD-IQ3_XXS 11200000000, UD-IQ3_S 11200000000, UD-Q3_K_S 12500000000,
        UD-Q3_K_M 12500000000, UD-Q3_K_XL 12900000000, UD-IQ4_XS 13400000000, UD-IQ4_NL 13400000000,
        UD-Q4_K_S 16400000000, UD-Q4_K_M 16900000000, UD-Q4_K_XL 17100000000, UD-Q5_K_S 18800000000,
        UD-Q5_K_M 21200000000, UD-Q5_K_XL 21300000000, UD-Q6_K 22900000000, UD-Q6_K_XL 23800000000,
        UD-Q8_K_XL 27900000000",
    ),
    (
        "Gemma-4-31B",
        "UD-IQ2_XXS 8530000000, UD-IQ2_M 10800000000, UD-Q2_K_XL 11800000000, UD-Q3_K_XL 15300000000,
        UD-Q4_K_XL 18800000000, UD-Q5_K_XL 21900000000, Q6_K 25200000000, UD-Q6_K_XL 27500000000,
        Q8_0 32600000000, UD-Q8_K_XL 35000000000",
    ),
    (
        "Qwen3.6-35B-A3B",
        "UD-Q2_K_XL 12290000000, UD-Q3_K_XL 16847009382, UD-IQ2_M 11520000000, UD-IQ3_XXS 13210000000,
        UD-Q4_K_XL 22355304776, UD-IQ4_NL 18029898240, UD-Q5_K_XL 26581518848, Q8_0 36904506490",
    ),
    ("Qwen3.5-9B", "UD-Q4_K_XL 5966095584"),
];

#[test]
fn every_mix_is_as_large_as_the_files_that_are_given_out() {
    let rows = models::rows().unwrap();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, files) in PUBLISHED {
        let row = models::find(rows, name).unwrap();
        for file in files.split(',') {
            let (mix, published) = file.trim().split_once(' ').unwrap();
            let published: f64 = published.parse().unwrap();
            let ours = models::shape(&row, mix).weights.unwrap().in_file() as f64;
            // The header with the vocabulary is not in ours.
            let percent = (ours / published - 1.0) * 100.0;
            count += 1;
            if percent.abs() > if mix.starts_with("UD-") { 4.0 } else { 1.0 } {
                wrong.push(format!("{name} {mix}: {percent:+.2} %"));
            }
        }
    }
    assert_eq!((wrong.join("\n"), count > 120), (String::new(), true));
}

#[test]
fn names_tell_the_quantisation() {
    for (name, said) in [
        ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q6_K", Some(("Q6_K", "Q6_K"))),
        ("llama3.1:8b-instruct-q8_0", Some(("Q8_0", "Q8_0"))),
        ("llama3.1:8b-instruct-fp16", Some(("FP16", "F16"))),
        ("qwen3-14b-UD-Q4_K_XL.gguf", Some(("UD-Q4_K_XL", "UD-Q4_K_XL"))),
        ("unsloth/Qwen3-14B-GGUF:UD-IQ2_XXS", Some(("UD-IQ2_XXS", "UD-IQ2_XXS"))),
        ("Qwen3.6-35B-A3B-Q4_K_XL", Some(("Q4_K_XL", "UD-Q4_K_XL"))),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_L.gguf", Some(("Q4_K_L", "Q4_K_L"))),
        ("Meta-Llama-3.1-8B-Instruct-Q4_0_8_8.gguf", Some(("Q4_0_8_8", "Q4_0"))),
        ("qwen 3 8b q5", Some(("Q5", "Q5_K_M"))),
        ("qwen 3 8b q8", Some(("Q8", "Q8_0"))),
        ("qwen3 8b 4bit", Some(("4BIT", "4-bit"))),
        ("gpt-oss-20b-mxfp4", Some(("MXFP4", "MXFP4"))),
        ("Qwen/Qwen2.5-32B-Instruct-AWQ", Some(("AWQ", "4-bit"))),
        ("Qwen/Qwen2.5-32B-Instruct-GPTQ-Int8", Some(("INT8", "FP8"))),
        ("unsloth/Qwen3-14B-bnb-4bit", Some(("4BIT", "4-bit"))),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", Some(("W4A16", "4-bit"))),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", Some(("FP8", "FP8"))),
        ("Qwen/Qwen3-8B", None),
        ("Qwen3-4B-Instruct-2507", None),
        ("phi-4", None),
        ("qwq", None),
        ("falcon-7b", None),
    ] {
        let found = in_name(name);
        assert_eq!(found.as_ref().map(|(word, mix)| (word.as_str(), *mix)), said, "{name}");
    }
    for known in plain() {
        assert_eq!(nearest(&known.to_lowercase()), Some(known));
    }
    // As llama.cpp prints them.
    for (number, name) in (0..42).filter_map(|number| Some((number, file_type(number)?))) {
        assert!(nearest(name).is_some(), "{number} {name}");
    }
}

#[test]
fn the_table_of_quantizations_parses() {
    let table: table::Table = crate::memory::data::read(table::TEXT).unwrap();
    let known: Vec<&str> = plain().collect();
    assert!(table.variants.iter().all(|variant| known.contains(&variant.of.as_str())));
    assert!(table.nearest.iter().all(|(_, mix)| known.contains(&mix.as_str())));
    assert!(table.library.iter().all(|row| is_own(&row.mix) || known.contains(&row.mix.as_str())));
}

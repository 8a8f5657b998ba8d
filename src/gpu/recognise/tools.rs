//! Owns telling apart what people work with: notebooks, image generation, training launchers and their workers,
//! browsers, games.

use super::invocation::{How, Invocation, Traits, base, with};

/// What to call it.
pub(super) fn label(traits: &Traits, run: &Invocation) -> Option<String> {
    notebook(traits, run)
        .or_else(|| worker(traits, run))
        .or_else(|| launcher(traits, run))
        .or_else(|| images(traits, run))
        .or_else(|| desktop(traits, run))
        .or_else(|| other(run))
}

fn notebook(traits: &Traits, run: &Invocation) -> Option<String> {
    if run.name == "colab_kernel_launcher" {
        return Some("Colab kernel".into());
    }
    if run.name.starts_with("ipykernel") {
        // VS Code and Cursor start kernels by themselves and give no name; only their file's name tells.
        let by_editor = run.rest.iter().any(|word| word.contains("kernel-v2-"));
        let file = traits.notebook.map(base).filter(|name| !name.is_empty());
        return Some(match (file, by_editor) {
            (Some(file), _) => format!("Jupyter kernel {file}"),
            (None, true) => with("notebook kernel of VS Code", Some(&traits.folder())),
            (None, false) => "Jupyter kernel".into(),
        });
    }
    is_notebook_server(run).then(|| "Jupyter server".into())
}

/// Starts kernels that have nothing to do with each other.
pub(super) fn is_notebook_server(run: &Invocation) -> bool {
    let programs = ["jupyter-lab", "jupyter-notebook", "jupyter-server", "jupyterhub-singleuser"];
    let modules = ["jupyterlab", "notebook", "jupyter_server"];
    programs.contains(&run.name.as_str()) || run.how == How::Module && modules.contains(&run.name.as_str())
}

/// Processes that a program starts of itself; named after that program.
fn worker(traits: &Traits, run: &Invocation) -> Option<String> {
    let is_started_by_python = run.how == How::Code && run.name.contains("from multiprocessing.");
    let what = match () {
        () if traits.comm == "pt_data_worker" => "DataLoader worker",
        () if !is_started_by_python => return None,
        () if run.name.contains("resource_tracker") => "resource tracker",
        () if run.name.contains("forkserver") => "fork server",
        () => "worker process",
    };
    Some(match traits.parent() {
        Some(parent) => format!("{what} of {}", parent.script().unwrap_or(&parent.name)),
        None => what.to_owned(),
    })
}

/// Start one program on many cards or nodes.
const MPI: [&str; 8] =
    ["mpirun", "mpiexec", "mpiexec.hydra", "hydra_pmi_proxy", "orterun", "orted", "prterun", "prted"];

/// Launchers hold next to nothing; their ranks are found by the script.
pub(super) fn launcher(traits: &Traits, run: &Invocation) -> Option<String> {
    let torchrun = ["torchrun", "torch.distributed.run", "torch.distributed.launch"].contains(&run.name.as_str());
    if torchrun || traits.comm == "pt_elastic" {
        return Some(with("torchrun launcher", run.script()));
    }
    if MPI.contains(&run.name.as_str()) {
        return Some(with("MPI launcher", run.script()));
    }
    let accelerate = run.is_of("accelerate") && run.has("launch") || run.name == "accelerate.commands.launch";
    if accelerate {
        return Some(with("accelerate launcher", run.script()));
    }
    (run.name == "deepspeed" || run.name == "deepspeed.launcher.launch")
        .then(|| with("DeepSpeed launcher", run.script()))
}

fn images(traits: &Traits, run: &Invocation) -> Option<String> {
    let folder = traits.folder();
    let place = format!("{}/{}", folder, run.path.to_ascii_lowercase());
    let label = match run.name.as_str() {
        "main.py" | "comfy" | "comfyui" if place.contains("comfyui") || run.name != "main.py" => "ComfyUI",
        "launch.py" | "webui.py" | "entry_with_update.py" => match () {
            () if place.contains("forge") => "Forge",
            () if place.contains("fooocus") => "Fooocus",
            () if place.contains("stable-diffusion") => "Stable Diffusion web UI",
            () => return None,
        },
        "invokeai-web" => "InvokeAI",
        script if is_kohya(script) => {
            return Some(with("kohya training", run.option(&["--output_name"]).or(Some(script))));
        }
        _ => return None,
    };
    Some(with(label, run.option(&["--ckpt"]).map(base)))
}

/// kohya's scripts: train_network.py, sdxl_train.py, flux_train_network.py …
fn is_kohya(script: &str) -> bool {
    let training = script.ends_with("train_network.py") || script.ends_with("train.py");
    script.ends_with("train_network.py") || training && (script.starts_with("sdxl_") || script.starts_with("flux_"))
}

fn desktop(traits: &Traits, run: &Invocation) -> Option<String> {
    if run.has("--type=gpu-process") {
        return Some(format!("GPU process of {}", run.name));
    }
    if run.has("-contentproc") {
        return Some(with("Firefox", run.rest.last().map(String::as_str)));
    }
    let program = traits.arguments.first().map(String::as_str).unwrap_or_default();
    if let Some(game) = program.rsplit('\\').next().filter(|name| program.contains('\\') && name.ends_with(".exe")) {
        return Some(with(game, Some("Wine")));
    }
    match run.name.as_str() {
        "blender" => Some(with("Blender", run.option(&["-b", "--background"]).map(base))),
        "obs" => Some("OBS".into()),
        "ffmpeg" => Some("ffmpeg".into()),
        _ => None,
    }
}

fn other(run: &Invocation) -> Option<String> {
    if let Some(part) = run.name.strip_prefix("frigate.") {
        // `frigate.process:CAM` is one camera's.
        return Some(with("Frigate", part.split_once(':').map(|(_, camera)| camera).or(Some(part))));
    }
    if run.name == "yolo" {
        return Some(with("Ultralytics YOLO", run.rest.iter().find_map(|word| word.strip_prefix("model="))));
    }
    if run.rest.iter().any(|word| word == "immich_ml.main:app") {
        return Some("Immich machine learning".into());
    }
    let whisper = run.name == "whisper" || run.name.ends_with("faster_whisper");
    whisper.then(|| with("Whisper", run.option(&["--model"])))
}

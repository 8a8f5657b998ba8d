//! The binary: hands over to `cli` and returns its exit code.

fn main() -> std::process::ExitCode {
    oomdoctor::cli::run()
}

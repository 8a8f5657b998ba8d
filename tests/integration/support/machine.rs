//! A typical machine: two GPUs, three real processes, and the log of a job that failed there.

use std::path::PathBuf;

use super::fake_driver::{FakeDriver, Sleeper};
use super::pty::Session;

pub const MIB: u64 = 1 << 20;
/// Free on GPU 0 while all processes run, as the screen shows it.
pub const FREE: &str = "6.2";
/// VRAM of the process that the log names.
pub const HELD: &str = "11.2 GiB";
/// Free on GPU 0 after that process has exited.
pub const FREE_AFTERWARDS: &str = "17.4";

/// Two GPUs of 24 GiB. On GPU 0 the process that the log names uses 11.2 GiB and the second 6.0; on GPU 1 the third uses 2.0.
pub struct Machine {
    pub driver: FakeDriver,
    pub logged: Sleeper,
    pub second: Sleeper,
    pub third: Sleeper,
}

impl Machine {
    pub fn new() -> Machine {
        Machine::with_logged(Sleeper::start())
    }

    pub fn with_logged(logged: Sleeper) -> Machine {
        let (second, third) = (Sleeper::start(), Sleeper::start());
        let driver = FakeDriver::new("()");
        let machine = Machine { driver, logged, second, third };
        machine.set_faults("");
        machine
    }

    /// Sets faults of the driver (RON, see tests/fake_nvml/scenario.rs).
    pub fn set_faults(&self, faults: &str) {
        self.driver.set_scenario(&format!(
            "(gpus: [{}, {}], processes: [{}, {}, {}], faults: [{faults}])",
            gpu("RTX 4090"),
            gpu("RTX 3090"),
            row(0, &self.logged, 11470),
            row(0, &self.second, 6144),
            row(1, &self.third, 2048),
        ));
    }

    /// Runs the program on this machine, in a terminal of this size, with further arguments.
    pub fn oomdoctor(&self, size: (u16, u16), arguments: &[&str]) -> Session {
        self.oomdoctor_every("0.2", size, arguments)
    }

    /// Runs the program with this many seconds between readings.
    pub fn oomdoctor_every(&self, interval: &str, size: (u16, u16), arguments: &[&str]) -> Session {
        let library = self.driver.library();
        let options = ["--interval", interval, "--nvml-library", library.to_str().unwrap()];
        Session::oomdoctor(size, &[arguments, &options].concat())
    }

    pub fn library(&self) -> PathBuf {
        self.driver.library()
    }

    /// The PIDs as text: logged, second, third.
    pub fn pids(&self) -> [String; 3] {
        [&self.logged, &self.second, &self.third].map(|sleeper| sleeper.pid().to_string())
    }

    /// The log of a job that failed here and names `logged`.
    pub fn log(&self) -> String {
        torch_log(self.logged.pid(), "23.99")
    }

    /// Whether all three processes still run.
    pub fn all_live(&mut self) -> bool {
        self.logged.lives() && self.second.lives() && self.third.lives()
    }
}

/// A GPU of 24 GiB in a scenario of the fake driver.
fn gpu(name: &str) -> String {
    let (total, reserved, base) = (24576 * MIB, 400 * MIB, 200 * MIB);
    format!("(name: \"NVIDIA GeForce {name}\", total: {total}, reserved: {reserved}, base: {base})")
}

/// A process in a scenario of the fake driver.
fn row(gpu: usize, sleeper: &Sleeper, mib: u64) -> String {
    format!("(gpu: {gpu}, pid: {}, bytes: Some({}))", sleeper.pid(), mib * MIB)
}

/// PyTorch's error on a GPU of this capacity in GiB; it names another process.
pub fn torch_log(pid: u32, capacity: &str) -> String {
    format!(
        "Traceback (most recent call last):
  File \"/home/ada/train.py\", line 88, in <module>
    loss = model(batch).loss
  File \"/home/ada/env/lib/python3.11/site-packages/torch/nn/functional.py\", line 2905, in linear
    return torch._C._nn.linear(input, weight, bias)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of {capacity} GiB of \
which 6.10 GiB is free. Process {pid} has 11.23 GiB memory in use. Including non-PyTorch memory, this process has 314.00 \
MiB memory in use. Of the allocated memory 200.00 MiB is allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but \
unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True \
to avoid fragmentation.
"
    )
}

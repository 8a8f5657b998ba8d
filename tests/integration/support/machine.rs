//! A machine as people have it: two cards, three real processes on them, and the log of a job that died there.

use std::path::PathBuf;

use super::fake_driver::{FakeDriver, Sleeper};
use super::pty::Session;

/// One MiB, in which this machine counts.
pub const MIB: u64 = 1 << 20;
/// Free on GPU 0 while all live, as the screen says it.
pub const FREE: &str = "6.2";
/// What the holder has.
pub const HELD: &str = "11.2 GiB";
/// Free on GPU 0 when the holder has gone.
pub const FREE_AFTERWARDS: &str = "17.4";

/// Two cards of 24 GiB. On GPU 0 the holder has 11.2 GiB and a second process 6.0; on GPU 1 a third has 2.0.
pub struct Machine {
    pub driver: FakeDriver,
    pub holder: Sleeper,
    pub second: Sleeper,
    pub third: Sleeper,
}

impl Machine {
    pub fn new() -> Machine {
        Machine::with_holder(Sleeper::start())
    }

    pub fn with_holder(holder: Sleeper) -> Machine {
        let (second, third) = (Sleeper::start(), Sleeper::start());
        let driver = FakeDriver::new("()");
        let machine = Machine { driver, holder, second, third };
        machine.set_faults("");
        machine
    }

    /// The same machine with these faults (RON, see tests/fake_nvml/scenario.rs).
    pub fn set_faults(&self, faults: &str) {
        let card = |name: &str| {
            format!(
                "(name: \"NVIDIA GeForce {name}\", total: {}, reserved: {}, base: {})",
                24576 * MIB,
                400 * MIB,
                200 * MIB
            )
        };
        let row = |gpu: usize, sleeper: &Sleeper, mib: u64| {
            format!("(gpu: {gpu}, pid: {}, bytes: Some({}))", sleeper.pid(), mib * MIB)
        };
        self.driver.set_scenario(&format!(
            "(gpus: [{}, {}], processes: [{}, {}, {}], faults: [{faults}])",
            card("RTX 4090"),
            card("RTX 3090"),
            row(0, &self.holder, 11470),
            row(0, &self.second, 6144),
            row(1, &self.third, 2048),
        ));
    }

    /// The program on this machine, in a terminal of this size, with these further arguments.
    pub fn oomdoctor(&self, size: (u16, u16), arguments: &[&str]) -> Session {
        self.oomdoctor_every("0.2", size, arguments)
    }

    /// The same with so many seconds from reading to reading.
    pub fn oomdoctor_every(&self, interval: &str, size: (u16, u16), arguments: &[&str]) -> Session {
        let library = self.driver.library();
        let options = ["--interval", interval, "--nvml-library", library.to_str().unwrap()];
        Session::oomdoctor(size, &[arguments, &options].concat())
    }

    /// The driver library to name on a command line.
    pub fn library(&self) -> PathBuf {
        self.driver.library()
    }

    /// The PIDs as they are printed: holder, second, third.
    pub fn pids(&self) -> [String; 3] {
        [&self.holder, &self.second, &self.third].map(|sleeper| sleeper.pid().to_string())
    }

    /// The log of a job that died here and names the holder.
    pub fn log(&self) -> String {
        torch_log(self.holder.pid(), "23.99")
    }

    /// Whether all three still run.
    pub fn all_live(&mut self) -> bool {
        self.holder.lives() && self.second.lives() && self.third.lives()
    }
}

/// What PyTorch prints when it dies on a card of so many GiB, beside a process that it names.
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

//! The same server inside this process, wired as `berth up` wires it, on a disk in memory that loses power, fails and fills up, and with a machine whose
//! clock can be set: neither can be done to a process without the rights, and the harm, of doing it to the machine.

use super::{Refusal, Users, endpoint};
use crate::{client::Endpoint, torture::draw::Draw};
use berth_api::FeatureGates;
use berth_apiserver::{Access, Config, Credentials, Limits, Pki, PkiOptions, Readiness, Server, Storage};
use berth_env::{
    Clock, Env, Rng, Spawner, Timestamp,
    steady_time::{Machine, SteadyTime},
};
use berth_registry::{Registry, ResourceTable};
use berth_store::{
    DEFAULT_HISTORY_BYTES, EmbeddedStore, Limits as StoreLimits, Opening, expiry,
    files::disk::{Disk, Trouble},
};
use futures::{
    FutureExt,
    future::{BoxFuture, pending},
};
use jiff::SignedDuration;
use std::{
    error::Error,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};

/// So small that checkpoints are made all the time, and logs go.
const LIMITS: StoreLimits = StoreLimits { log_step_bytes: 16 << 10, checkpoint_bytes_min: 200 << 10, free_bytes_min: 8 << 10 };

pub(crate) struct InProcess {
    pub(crate) disk: Disk,
    /// How far the machine's clock is ahead, in milliseconds.
    ahead: Arc<AtomicI64>,
    keys: TempDir,
    users: Option<Users>,
    rng: Arc<SeededRng>,
    running: Option<Running>,
}

struct Running {
    runtime: Runtime,
    clock: SteadyTime<SettableMachine>,
}

impl InProcess {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            disk: Disk::default(),
            ahead: Arc::default(),
            keys: TempDir::new().unwrap(),
            users: None,
            rng: Arc::new(SeededRng(Mutex::new(Draw::of(seed, 3000)))),
            running: None,
        }
    }

    pub(crate) async fn start(&mut self) -> Result<Vec<Endpoint>, Refusal> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let machine = SettableMachine { started: Instant::now(), ahead: Arc::clone(&self.ahead) };
        let clock = SteadyTime::new(machine);
        let env = Env {
            clock: Arc::new(clock.clone()),
            rng: Arc::<SeededRng>::clone(&self.rng),
            spawner: Arc::new(RuntimeSpawner(runtime.handle().clone())),
        };
        env.spawner.spawn("clock", clock.clone().follow(|_| ()).boxed());
        let keys = self.keys.path().to_owned();
        let serving = serve(self.disk.clone(), keys.clone(), env, runtime.handle().clone());
        let served = runtime.spawn(async move { serving.await.map_err(|error| error.to_string()) }).await;
        let started = served.map_err(|panic| panic.to_string()).and_then(|served| served);
        self.running = Some(Running { runtime, clock });
        let (address, pki) = match started {
            Ok(started) => started,
            Err(output) => {
                self.stop();
                return Err(Refusal { status: None, output });
            }
        };
        let users = self.users.get_or_insert_with(|| Users::issue(&keys).expect("the authority was made just now"));
        let address = address.to_string();
        Ok(std::iter::once(endpoint(&address, &pki.ca_certificate, &pki.admin)).chain(users.endpoints(&address)).collect())
    }

    /// Injects a fault after this many operations more, and a few.
    pub(crate) fn trouble_in(&self, operations: u64, trouble: Trouble) {
        // Some are executed meanwhile.
        const MARGIN: u64 = 30;
        self.disk.fail_at(self.disk.operations() + MARGIN + operations, trouble);
    }

    /// Everything that was written stays, whatever was synced.
    pub(crate) fn kill(&mut self) {
        self.disk.switch_off();
        self.disk = self.disk.after_kill();
        self.stop();
    }

    /// What was synced stays, and of the rest what the seed draws.
    pub(crate) fn lose_power(&mut self, seed: u64) {
        self.disk.switch_off();
        self.disk = self.disk.after_power_loss(seed);
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.runtime.shutdown_background();
        }
    }

    /// Sets the machine's clock so far ahead of what it should be.
    pub(crate) fn set_clock(&self, ahead: SignedDuration) {
        self.ahead.store(i64::try_from(ahead.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }

    /// What time the server thinks it is.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.running.as_ref().map(|running| running.clock.now())
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn serve(disk: Disk, keys: impl AsRef<Path>, env: Env, users: Handle) -> Result<(SocketAddr, Pki), Box<dyn Error + Send + Sync>> {
    let table = Arc::new(ResourceTable::default());
    let opening = Opening { limits: LIMITS, ..Opening::default() };
    let store = Arc::new(EmbeddedStore::open_on(Arc::new(disk), Arc::clone(&table), opening)?);
    expiry::start(Arc::<EmbeddedStore>::clone(&store), &env);
    let bind = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = PkiOptions { folder: keys.as_ref(), bind: bind.ip(), extra_names: &[], now: env.clock.now() };
    let pki = Pki::load_or_create(&options, env.rng.as_ref())?;
    let gates = Arc::new(FeatureGates::default());
    let registry = Registry::new(store, table, env.clock, Arc::clone(&env.rng), Arc::clone(&gates));
    let registry = registry.with_history_shares(DEFAULT_HISTORY_BYTES as u64);
    registry.bootstrap().await?;
    registry.bootstrap_policy().await?;
    let readiness = Readiness::default();
    let config = Config {
        bind,
        registry,
        storage: Storage::default(),
        credentials: Credentials::from(&pki),
        access: Access::default(),
        limits: Limits::default(),
        gates: Arc::clone(&gates),
        controller_gates: gates,
        metrics: prometheus::Registry::new(),
        readiness: readiness.clone(),
        rng: env.rng,
        users,
    };
    let server = Server::bind(config).await?;
    let address = server.local_addr();
    tokio::spawn(server.serve(pending()));
    readiness.set_ready();
    Ok((address, pki))
}

/// The machine, but for its clock, which others may set.
struct SettableMachine {
    started: Instant,
    ahead: Arc<AtomicI64>,
}

impl Machine for SettableMachine {
    fn running(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall_clock(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_millis(self.ahead.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        tokio::time::sleep(duration).boxed()
    }
}

struct SeededRng(Mutex<Draw>);

impl Rng for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        let mut draw = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in bytes.chunks_mut(8) {
            piece.copy_from_slice(&draw.next().to_le_bytes()[..piece.len()]);
        }
    }
}

struct RuntimeSpawner(Handle);

impl Spawner for RuntimeSpawner {
    fn spawn(&self, _name: &'static str, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }
}

//! Cycles of faults: a server lives among clients that write and watch, something is done to it or to what is below it, it dies, and the next one is asked
//! for everything that was acknowledged.

use super::{
    attackers::{self, Attacker},
    attacks::{ATTACKS, Attack},
    bars::ATTACKERS,
    damage::{self, Damage, Tree},
    draw::Draw,
    full::SmallDisk,
    memory::{Fault, What},
    mortals::Mortals,
    session::{Record, Session},
    subject::{End, Subject, by_key},
    tally::Tally,
    test_server::{InProcess, Process, Refusal, TestServer},
};
use crate::{client::Connection, server::issue};
use berth_linear::{Key, Object};
use berth_store::files::disk::Trouble;
use jiff::SignedDuration;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How long it goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Time(Duration),
    /// One of each kind by turns, so many in all, each a short one.
    Cycles(u64),
}

/// What is done in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kill,
    KillInStart,
    Damage,
    Attack,
    FullDisk,
    PowerLoss,
    PowerLossInStart,
    FailingDisk,
    Clock,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::Kill,
        Self::KillInStart,
        Self::Damage,
        Self::Attack,
        Self::FullDisk,
        Self::PowerLoss,
        Self::PowerLossInStart,
        Self::FailingDisk,
        Self::Clock,
    ];

    /// Once each has been: what finds most for its time comes more often.
    fn draw(draw: &mut Draw) -> Self {
        let more = [Self::Kill, Self::Kill, Self::Kill, Self::KillInStart, Self::PowerLoss, Self::PowerLoss, Self::PowerLossInStart];
        let all = [&Self::ALL[..], &more].concat();
        *draw.pick(&all)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::KillInStart => "kill -9 in starts",
            Self::Damage => "damage to the folder",
            Self::Attack => "attack, then kill -9",
            Self::FullDisk => "full disk",
            Self::PowerLoss => "power loss",
            Self::PowerLossInStart => "power loss in starts",
            Self::FailingDisk => "failing disk",
            Self::Clock => "clock set",
        }
    }
}

/// Everything that is tortured.
struct Chamber<'t> {
    binary: PathBuf,
    folder: TempDir,
    /// Processes on a real folder.
    process: Subject,
    /// Servers in this process, on a disk in memory.
    in_process: Subject,
    tally: &'t RefCell<Tally>,
    /// How many writes a cycle waits for, at most.
    writes_max: u64,
    seed: u64,
}

/// Whether nothing was found.
pub(crate) async fn run(binary: &Path, seed: u64, length: Length) -> bool {
    let begun = Instant::now();
    crate::print::print(&format!("seed {seed}"));
    let folder = TempDir::new().unwrap();
    let tally = RefCell::new(Tally::new(folder.path()));
    let process = Process::on(binary, folder.path().join("data"), folder.path().join("log"));
    let mut chamber = Chamber {
        binary: binary.to_owned(),
        process: Subject::new(TestServer::Process(process), seed),
        in_process: Subject::new(TestServer::InProcess(InProcess::new(seed)), seed),
        folder,
        tally: &tally,
        writes_max: if let Length::Cycles(_) = length { 200 } else { 2000 },
        seed,
    };
    let mut ended = Ok(());
    for number in 0.. {
        let is_over = match length {
            Length::Time(time) => time <= begun.elapsed(),
            Length::Cycles(cycles) => cycles <= number,
        };
        if is_over || ended.is_err() {
            break;
        }
        let mut draw = Draw::of(seed, (1 << 32) + number);
        let kind = match (length, Kind::ALL.get(number as usize)) {
            (_, Some(kind)) => *kind,
            (Length::Time(_), None) => Kind::draw(&mut draw),
            (Length::Cycles(_), None) => Kind::ALL[number as usize % Kind::ALL.len()],
        };
        ended = chamber.cycle(number, kind, &mut draw).await;
    }
    if ended.is_ok() {
        ended = chamber.finish().await;
    }
    if let Err(Refusal { status, output }) = ended {
        tally.borrow_mut().fault(Fault::new(What::Start, format!("a server does not start ({status:?}): {output}")));
    }
    crate::print::print(&tally.borrow().text(seed, begun.elapsed()));
    let is_clean = tally.borrow().is_clean();
    if !is_clean {
        crate::print::print(&format!("the folder is kept: {}", chamber.folder.path().display()));
        chamber.folder.disable_cleanup(true);
    }
    is_clean
}

impl Chamber<'_> {
    async fn cycle(&mut self, number: u64, kind: Kind, draw: &mut Draw) -> Result<(), Refusal> {
        let (begun, before) = (Instant::now(), self.tally.borrow().acknowledged);
        let name = format!("{}-{number}", self.seed);
        let writes = 20 + draw.below(self.writes_max);
        match kind {
            Kind::Kill => self.kill(&name, writes, draw).await?,
            Kind::KillInStart => self.kill_in_starts(&name, writes / 4, draw).await?,
            Kind::Damage => self.damage(&name, writes / 4, draw).await?,
            Kind::Attack => self.attack(&name, writes / 4, draw).await?,
            Kind::FullDisk => self.full_disk(&name, writes, draw).await?,
            Kind::PowerLoss => self.power_loss(&name, draw).await?,
            Kind::PowerLossInStart => self.power_loss_in_starts(&name, draw).await?,
            Kind::FailingDisk => self.failing_disk(&name, writes, draw).await?,
            Kind::Clock => self.clock(&name, writes, draw).await?,
        }
        let mut tally = self.tally.borrow_mut();
        *tally.cycles.entry(kind.name()).or_default() += 1;
        let (acknowledged, faults, took) = (tally.acknowledged - before, tally.faults(), begun.elapsed().as_secs_f64());
        crate::print::print(&format!(
            "cycle {number:4}  {:21} {acknowledged:6} writes acknowledged  {took:5.1} s  faults: {faults}",
            kind.name()
        ));
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Refusal> {
        self.process.finish(self.tally).await?;
        self.in_process.finish(self.tally).await
    }

    async fn kill(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        let is_quiet = draw.one_in(4);
        let conduct = async |session: &Session<'_>, _: &mut TestServer| {
            session.more(writes).await;
            if is_quiet {
                session.quiet().await;
            }
            End::Kill
        };
        self.process.live(self.tally, name, conduct).await
    }

    async fn kill_in_starts(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        for _ in 0..1 + draw.below(3) {
            // A little beyond a start as well: a server that has just begun to answer.
            self.process.test_server.process().kill_in_start(draw.below(130)).unwrap();
        }
        self.kill(name, writes, draw).await
    }

    /// Everything is written and checked. Then copies of the folder are damaged.
    async fn damage(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        self.kill(name, writes, draw).await?;
        self.process.finish(self.tally).await?;
        let whole = damage::read(self.process.test_server.process().folder()).unwrap();
        for _ in 0..3 {
            let damage = Damage::draw(&whole, draw);
            let found = self.damaged(&damage, &whole).await;
            let mut tally = self.tally.borrow_mut();
            match found {
                Ok(is_noticed) => tally.damage.entry(damage.kind()).or_default()[usize::from(!is_noticed)] += 1,
                Err(text) => tally.fault(Fault::new(What::Damage, format!("{damage:?}: {text}"))),
            }
        }
        Ok(())
    }

    /// Starts on a damaged copy. Returns whether the damage was detected, or an error where something was lost, or not reported.
    async fn damaged(&self, damage: &Damage, whole: &Tree) -> Result<bool, String> {
        let mut damaged = whole.clone();
        damage.apply(&mut damaged);
        let folder = TempDir::new_in(self.folder.path()).map_err(text)?;
        damage::write(&folder.path().join("data"), &damaged).map_err(text)?;
        let mut process = Process::on(&self.binary, folder.path().join("data"), folder.path().join("log"));
        let administrator = match process.start_alone() {
            Ok(administrator) => administrator,
            Err(refusal) if !refusal.has_cause() => return Err(format!("the start ended badly: {refusal:?}")),
            Err(_) if damage::read(process.folder()).map_err(text)? != damaged => {
                return Err("a start that refused changed files".to_owned());
            }
            Err(_) => return Ok(true),
        };
        let (record, unseen) = (Record::default(), RefCell::new(Tally::default()));
        let session = Session::new(vec![administrator.clone()], &record, &unseen);
        let mut connection = Connection::try_open(&administrator).await.map_err(text)?;
        let listed = session.list("conductor", &mut connection).await.map_err(text)?;
        // What the server keeps for itself may follow from what was damaged: each namespace has the authority's certificate.
        let ours =
            |objects: BTreeMap<Key, Object>| objects.into_iter().filter(|(_, object)| !object.value.0.is_empty()).collect::<Vec<_>>();
        let (found, known) = (ours(by_key(&listed)), ours(self.process.objects.clone()));
        if found == known { Ok(false) } else { Err(format!("it started with {found:?}, where there were {known:?}")) }
    }

    async fn attack(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        let attacks: [&Attack; 2] = [draw.pick(ATTACKS), draw.pick(ATTACKS)];
        let (binary, kubeconfig) = (self.binary.clone(), self.folder.path().join("attacker"));
        let conduct = async |session: &Session<'_>, test_server: &mut TestServer| {
            let folder = test_server.process().folder();
            fs::write(&kubeconfig, issue(&binary, folder, "attacker", ATTACKERS)).unwrap();
            let mut attackers = attackers::begin(&attacks, &kubeconfig).await;
            session.more(writes).await;
            for fault in attackers.iter_mut().filter_map(Attacker::fault) {
                session.fault(Fault::new(What::Answer, fault));
            }
            End::Kill
        };
        self.process.live(self.tally, name, conduct).await
    }

    /// A disk of its own, where one may be mounted; else the one in memory.
    async fn full_disk(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        let folder = TempDir::new_in(self.folder.path()).unwrap();
        let disk = SmallDisk::mount(folder.path().join("disk")).unwrap();
        let how = if disk.is_some() { "mounted in memory" } else { "in this process: none can be mounted" };
        *self.tally.borrow_mut().full_disks.entry(how).or_default() += 1;
        let Some(disk) = disk else { return self.full_in_process(name, writes, draw).await };
        let process = Process::on(&self.binary, disk.path().join("data"), folder.path().join("log"));
        let mut subject = Subject::new(TestServer::Process(process), draw.next());
        let (mib_left, dies_full) = (if draw.one_in(2) { 0 } else { draw.below(60) }, draw.one_in(2));
        let conduct = async |session: &Session<'_>, _: &mut TestServer| {
            session.more(writes / 4).await;
            disk.fill(mib_left).unwrap();
            let refused = session.refused.get() + 100;
            session.until(What::Start, "writes are refused", |session| refused <= session.refused.get()).await;
            if dies_full {
                return End::Kill;
            }
            disk.empty().unwrap();
            session.more(writes / 4).await;
            session.quiet().await;
            End::Kill
        };
        subject.live(self.tally, name, conduct).await?;
        if dies_full {
            match subject.test_server.start().await {
                Ok(_) => subject.test_server.kill(),
                Err(refusal) if refusal.has_cause() => (),
                Err(refusal) => return Err(refusal),
            }
            disk.empty().unwrap();
        }
        subject.finish(self.tally).await
    }

    async fn full_in_process(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        let (free_bytes, seed) = (draw.below(1 << 16), draw.next());
        let conduct = async |session: &Session<'_>, test_server: &mut TestServer| {
            session.more(writes / 4).await;
            test_server.in_process().disk.set_free_bytes(Some(free_bytes));
            let refused = session.refused.get() + 100;
            session.until(What::Start, "writes are refused", |session| refused <= session.refused.get()).await;
            test_server.in_process().disk.set_free_bytes(None);
            session.more(writes / 4).await;
            session.quiet().await;
            End::PowerLoss(seed)
        };
        self.in_process.live(self.tally, name, conduct).await
    }

    async fn power_loss(&mut self, name: &str, draw: &mut Draw) -> Result<(), Refusal> {
        let (after, seed) = (draw.below(600), draw.next() >> draw.below(64));
        let conduct = async |session: &Session<'_>, test_server: &mut TestServer| {
            let test_server = test_server.in_process();
            test_server.trouble_in(after, Trouble::PowerLoss);
            let is_felt = |session: &Session<'_>| 0 < session.unknown.get() + session.refused.get() || session.writing.get() == 0;
            session.until(What::Start, "the power is lost", is_felt).await;
            End::PowerLoss(seed)
        };
        self.in_process.live(self.tally, name, conduct).await
    }

    async fn power_loss_in_starts(&mut self, name: &str, draw: &mut Draw) -> Result<(), Refusal> {
        for _ in 0..1 + draw.below(3) {
            let test_server = self.in_process.test_server.in_process();
            test_server.disk.fail_at(test_server.disk.operations() + draw.below(20), Trouble::PowerLoss);
            // Whether it came to that or not.
            let _ = test_server.start().await;
            test_server.lose_power(draw.next() >> draw.below(64));
        }
        self.power_loss(name, draw).await
    }

    async fn failing_disk(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        let failures: Vec<u64> = (0..1 + draw.below(4)).map(|_| draw.below(300)).collect();
        let (is_killed, seed) = (draw.one_in(2), draw.next());
        let conduct = async |session: &Session<'_>, test_server: &mut TestServer| {
            failures.iter().for_each(|after| test_server.in_process().trouble_in(*after, Trouble::Failure));
            session.more(writes).await;
            session.quiet().await;
            if is_killed { End::Kill } else { End::PowerLoss(seed) }
        };
        self.in_process.live(self.tally, name, conduct).await
    }

    /// Sets the machine's clock to and fro. Time goes on, never back, and nothing else is felt; what is to end ends by it. At last a day is leapt over.
    async fn clock(&mut self, name: &str, writes: u64, draw: &mut Draw) -> Result<(), Refusal> {
        let mut step = || {
            let scale = 1000 << draw.below(16);
            let step = draw.below(scale) as i64;
            if draw.one_in(2) { step } else { -step }
        };
        let steps: Vec<i64> = (0..5).map(|_| step()).collect();
        let conduct = async |session: &Session<'_>, test_server: &mut TestServer| {
            if let Err(error) = set_to_and_fro(session, test_server, &steps, writes / steps.len() as u64).await {
                session.fault(Fault::new(What::Answer, format!("while the clock was set: {error}")));
            }
            session.quiet().await;
            End::Kill
        };
        self.in_process.live(self.tally, name, conduct).await
    }
}

/// Between two steps, so many writes are waited for.
async fn set_to_and_fro(session: &Session<'_>, test_server: &mut TestServer, steps: &[i64], writes: u64) -> io::Result<()> {
    let mut mortals = Mortals::make(session, test_server).await?;
    let mut last = test_server.in_process().now();
    for step in steps {
        test_server.in_process().set_clock(SignedDuration::from_millis(*step));
        session.more(writes).await;
        let now = test_server.in_process().now();
        if now <= last {
            session.fault(Fault::new(What::Time, format!("it is {now:?} behind {last:?}, the clock being ahead by {step} ms")));
        }
        last = now;
        mortals.check(session, test_server).await?;
    }
    mortals.end(session, test_server).await?;
    test_server.in_process().set_clock(SignedDuration::from_millis(steps[0]));
    session.more(writes).await;
    mortals.check(session, test_server).await
}

fn text(error: io::Error) -> String {
    error.to_string()
}

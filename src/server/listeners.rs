//! The sockets of the addresses: those that the service manager passed, and those that the server binds.
//!
//! The server binds one socket per address and thread, with a shared port. Passed sockets of one address are spread
//! over the workers. If there are fewer than workers, some workers share a socket. The worker that is awake then takes most
//! of the connections.

use std::net::{SocketAddr, TcpListener};

use super::{Addresses, BootError};
use crate::addresses::ListenError;
use crate::config::Config;
use crate::http::request::Surface;
use crate::worker::{self, BoundAddress, PassedSocket, PassedSocketError, ReservedAddress};

/// The name of an address as a passed socket, its flag, and the address that the flag is set to.
#[derive(Clone, Copy)]
struct AddressSetting {
    name: &'static str,
    flag: &'static str,
    address: Option<SocketAddr>,
}

/// The addresses of the server, claimed for it, with their sockets.
pub(super) struct Listeners {
    pub(super) addresses: Addresses,
    public: Sockets,
    events: Option<Sockets>,
    admin: Sockets,
}

impl Listeners {
    /// Claims all addresses before it reserves any: two surfaces on one port would answer each other's requests. Then
    /// keeps them reserved until they are listened on, because reading snapshots and log takes time.
    pub(super) fn claim(config: &Config, passed_sockets: Vec<PassedSocket>) -> Result<Self, BootError> {
        let setting = |name, flag, address| AddressSetting { name, flag, address };
        let settings = [
            setting("public", "--listen", Some(config.listen)),
            setting("admin", "--admin", Some(config.admin)),
            setting("events", "--events-listen", config.events_listen),
        ];
        let [public, admin, events] = assign(passed_sockets, settings)?;
        let [public_setting, admin_setting, events_setting] = settings;
        let public = Claim::new(public, public_setting, config.listen)?;
        let admin = Claim::new(admin, admin_setting, config.admin)?;
        let claim_events = |address| Claim::new(events, events_setting, address);
        let events = config.events_listen.map(claim_events).transpose()?;
        let addresses = Addresses {
            listen: public.address,
            events_listen: events.as_ref().map(|claim| claim.address),
            admin: admin.address,
        };
        let events = events.map(Claim::into_sockets).transpose()?;
        Ok(Self { addresses, public: public.into_sockets()?, events, admin: admin.into_sockets()? })
    }

    /// Returns the listeners of the worker with this index.
    pub(super) fn of_worker(
        &self,
        worker_index: usize,
        worker_count: usize,
    ) -> Result<Vec<(TcpListener, Surface)>, BootError> {
        let surface = if self.events.is_some() { Surface::Edge } else { Surface::Public };
        let public = self.public.of_thread(worker_index, worker_count)?;
        let events = self.events.as_ref().map(|sockets| sockets.of_thread(worker_index, worker_count));
        let public = public.into_iter().map(|listener| (listener, surface));
        let events = events.transpose()?.unwrap_or_default().into_iter();
        Ok(public.chain(events.map(|listener| (listener, Surface::Events))).collect())
    }

    /// Returns the listeners of the admin thread.
    pub(super) fn of_admin(&self) -> Result<Vec<(TcpListener, Surface)>, BootError> {
        let listeners = self.admin.of_thread(0, 1)?;
        Ok(listeners.into_iter().map(|listener| (listener, Surface::Admin)).collect())
    }

    /// Returns whether the service manager passed the sockets of the admin address.
    pub(super) fn has_passed_admin(&self) -> bool {
        matches!(self.admin, Sockets::Passed(_))
    }
}

/// Returns the passed sockets of each address.
fn assign<const N: usize>(
    passed_sockets: Vec<PassedSocket>,
    settings: [AddressSetting; N],
) -> Result<[Vec<PassedSocket>; N], PassedSocketError> {
    let mut assigned = [const { Vec::new() }; N];
    for socket in passed_sockets {
        let PassedSocket { ref name, address, .. } = socket;
        let Some(index) = settings.iter().position(|setting| setting.name == name) else {
            return Err(PassedSocketError::Name { name: name.clone(), address });
        };
        let flag = settings[index].flag;
        let Some(expected) = settings[index].address else {
            return Err(PassedSocketError::Unwanted { name: name.clone(), address, flag });
        };
        // Port 0 is any port.
        if expected != address && (expected.port() != 0 || expected.ip() != address.ip()) {
            return Err(PassedSocketError::Address { name: name.clone(), address, flag, expected });
        }
        assigned[index].push(socket);
    }
    Ok(assigned)
}

/// A claimed address: no other process listens on it.
struct Claim {
    flag: &'static str,
    address: SocketAddr,
    source: ClaimSource,
}

enum ClaimSource {
    /// Passed sockets, which listen already.
    Passed(Vec<TcpListener>),
    /// An address that is bound exclusively.
    Bound(BoundAddress),
}

impl Claim {
    /// Claims an address: with its passed sockets, or if there are none by binding it.
    fn new(
        passed_sockets: Vec<PassedSocket>,
        setting: AddressSetting,
        address: SocketAddr,
    ) -> Result<Self, BootError> {
        let flag = setting.flag;
        if let Some(first) = passed_sockets.first() {
            let address = first.address;
            tracing::info!(name = setting.name, %address, sockets = passed_sockets.len(), "using passed sockets");
            let listeners = passed_sockets.into_iter().map(|socket| socket.listener).collect();
            return Ok(Self { flag, address, source: ClaimSource::Passed(listeners) });
        }
        let bound = worker::bind_exclusive(address);
        let bound = bound.map_err(|cause| ListenError { address, flag, cause })?;
        Ok(Self { flag, address: bound.address, source: ClaimSource::Bound(bound) })
    }

    /// Reserves the address, if it was bound.
    fn into_sockets(self) -> Result<Sockets, BootError> {
        let Self { flag, address, source } = self;
        match source {
            ClaimSource::Passed(listeners) => Ok(Sockets::Passed(listeners)),
            ClaimSource::Bound(bound) => {
                let reserved = worker::reserve_address(bound);
                let _reserved = reserved.map_err(|cause| ListenError { address, flag, cause })?;
                Ok(Sockets::Own { address, flag, _reserved })
            }
        }
    }
}

/// The sockets of one address.
enum Sockets {
    /// Sockets that the service manager passed.
    Passed(Vec<TcpListener>),
    /// An address that the server binds, once for each thread.
    Own { address: SocketAddr, flag: &'static str, _reserved: ReservedAddress },
}

impl Sockets {
    /// Returns the listeners of one thread. Each passed socket has a thread, and each thread has a socket.
    fn of_thread(&self, thread_index: usize, thread_count: usize) -> Result<Vec<TcpListener>, BootError> {
        match self {
            Self::Own { address, flag, .. } => {
                let bound = worker::bind(*address);
                let failed = |cause| BootError::from(ListenError { address: *address, flag, cause });
                Ok(vec![bound.map_err(failed)?])
            }
            Self::Passed(listeners) => {
                let indexes = (thread_index..listeners.len().max(thread_count)).step_by(thread_count);
                let clones = indexes.map(|index| listeners[index % listeners.len()].try_clone());
                clones.collect::<Result<_, _>>().map_err(|cause| BootError::System {
                    what: "cannot duplicate a passed socket (check ulimit -n)",
                    cause,
                })
            }
        }
    }
}

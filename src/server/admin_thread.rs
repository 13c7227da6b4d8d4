//! The operator's address: it listens before anything is read, says how far reading is, and gets its other parts when all is read.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::event_log::{Recording, bell};
use super::{BootError, bind, serve};
use crate::admin::startup::{Parts, Reading, Starting};
use crate::admin::{Operator, Read};
use crate::api::Desk;
use crate::config::Connections;
use crate::http::request::Surface;
use crate::metrics::Totals;
use crate::worker::{ENDPOINTS_COUNTED, Kernel, Plan, Stopping};

/// The operator's thread, while a server starts.
pub(super) struct Operating {
    /// How far reading has come, for it to tell.
    pub(super) reading: Reading,
    parts: SyncSender<Parts>,
    /// Wakes it when what takes longer is done.
    ring: UnixStream,
}

impl Operating {
    /// Listens on `address` and answers there with the service that `operator` makes.
    pub(super) fn begin(
        kernel: Kernel,
        connections: Connections,
        address: SocketAddr,
        operator: impl FnOnce() -> Operator + Send + 'static,
    ) -> Result<Self, BootError> {
        let (ring, bell) = bell()?;
        let (sender, parts) = sync_channel(1);
        let reading = Reading::default();
        let starting = Starting { reading: reading.clone(), parts };
        serve(Plan {
            name: "operator".to_owned(),
            cpu: None,
            kernel,
            spin: Duration::ZERO,
            connections,
            // Its answers are not counted among the public ones, its connections not waited for at the end.
            totals: Totals::new(ENDPOINTS_COUNTED),
            stopping: Stopping::default(),
            listeners: vec![(bind(address, "--admin")?, Surface::Admin)],
            bell: Some(bell),
            service: move || operator().starting(starting),
        })?;
        tracing::info!("the operator's address is http://{address}");
        Ok(Self { reading, parts: sender, ring })
    }

    /// Hands over what there is now: all is read.
    pub(super) fn complete(
        self,
        recording: &Recording,
        desk: impl FnOnce() -> Desk + Send + 'static,
        read: Read,
    ) {
        let visitors = recording.visitors(self.ring, read.jobs.clone());
        let make = Box::new(move || (desk(), visitors()));
        // There is room for the one message; a thread that is gone has panicked, and said so.
        let _ = self.parts.try_send(Parts { make, read });
    }
}

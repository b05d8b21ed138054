//! Endpoints, and the lines in which their deliveries wait.

use rusqlite::{Connection, OptionalExtension, Row, params};
use tidings_proto::delivery::{
    Category, DisableReason, EndpointKey, EndpointPolicy, EndpointState, Health, Learned, Proof, Standing,
};
use tidings_proto::time::StoreMillis;
use tidings_store::flow::{HostRow, Line};
use tidings_store::{Done, EndpointNews, EndpointOwner, EndpointRecord, OriginProof, Sealed};

use crate::Core;
use crate::error::{Fail, corrupt};
use crate::rows::small;
use crate::seal::Field;
use crate::writer::Tx;

/// The columns of [`standing`], in its order.
const STANDING: &str = "state, proof, proven_at, proven_until, disabled, disabled_at, verify_at, refusals, failures,
     failing_since, open_until, good, last_error";

fn standing(row: &Row<'_>) -> rusqlite::Result<Standing> {
    let text = |column: usize| row.get::<_, Option<String>>(column);
    let bad = |column| rusqlite::Error::InvalidColumnType(column, "a name".into(), rusqlite::types::Type::Text);
    let disabled = match (text(4)?, row.get::<_, Option<StoreMillis>>(5)?) {
        (Some(reason), Some(at)) => Some((DisableReason::from_text(&reason).ok_or_else(|| bad(4))?, at)),
        _ => None,
    };
    Ok(Standing {
        state: EndpointState::from_text(&row.get::<_, String>(0)?).ok_or_else(|| bad(0))?,
        proof: text(1)?.map(|name| Proof::from_text(&name).ok_or_else(|| bad(1))).transpose()?,
        proven_at: row.get(2)?,
        proven_until: row.get(3)?,
        disabled,
        verify_at: row.get(6)?,
        refusals: small(row, 7)?,
        health: Health {
            failures: small(row, 8)?,
            failing_since: row.get(9)?,
            open_until: row.get(10)?,
            good: row.get(11)?,
        },
        last_error: text(12)?.and_then(|name| Category::from_text(&name)),
    })
}

const RECORD: &str = "uid, principal, host, route";

/// A record from [`STANDING`] and [`RECORD`].
fn record(core: &Core, row: &Row<'_>) -> rusqlite::Result<Result<EndpointRecord, Fail>> {
    let uid: Vec<u8> = row.get(13)?;
    let sealed: Vec<u8> = row.get(16)?;
    let standing = standing(row)?;
    let (principal, host) = (row.get(14)?, row.get(15)?);
    let Ok(key) = uid.as_slice().try_into().map(EndpointKey) else {
        return Ok(Err(corrupt("the key of an endpoint has not 32 bytes").into()));
    };
    let Ok(route) = open_route(core, key, &sealed) else {
        return Ok(Err(corrupt(format!("the route of endpoint {key} does not open: damaged or replaced")).into()));
    };
    Ok(Ok(EndpointRecord { key, owner: EndpointOwner { principal, host, route }, standing }))
}

fn open_route(core: &Core, key: EndpointKey, sealed: &[u8]) -> Result<Sealed, crate::seal::DoesNotOpen> {
    if sealed.is_empty() {
        return Ok(Sealed::default());
    }
    core.sealer.open(sealed, Field::EndpointRoute, &key.0).map(Sealed)
}

pub(crate) fn by_key(conn: &Connection, core: &Core, key: EndpointKey) -> Result<Option<EndpointRecord>, Fail> {
    conn.prepare_cached(&format!("SELECT {STANDING}, {RECORD} FROM endpoints WHERE uid = ?1"))?
        .query_row([&key.0], |row| record(core, row))
        .optional()?
        .transpose()
}

pub(crate) fn list(
    conn: &Connection,
    core: &Core,
    principal: Option<&str>,
    limit: u32,
) -> Result<Vec<EndpointRecord>, Fail> {
    let sql = match principal {
        Some(_) => format!("SELECT {STANDING}, {RECORD} FROM endpoints WHERE principal = ?1 ORDER BY n LIMIT ?2"),
        None => format!("SELECT {STANDING}, {RECORD} FROM endpoints WHERE ?1 IS NULL ORDER BY n LIMIT ?2"),
    };
    let mut select = conn.prepare_cached(&sql)?;
    let rows = select.query_map((principal, limit), |row| record(core, row))?;
    rows.map(|row| row?).collect()
}

/// What is kept of what an origin publishes.
pub(crate) fn origin_proof(conn: &Connection, principal: &str, origin: &str) -> Result<Option<OriginProof>, Fail> {
    let found = conn
        .prepare_cached("SELECT document, until FROM origin_proofs WHERE principal = ?1 AND origin = ?2")?
        .query_row((principal, origin), |row| {
            let (principal, origin) = (principal.to_owned(), origin.to_owned());
            Ok(OriginProof { principal, origin, document: row.get(0)?, until: row.get(1)? })
        })
        .optional()?;
    Ok(found)
}

/// How many deliveries of a principal are not finished, counted no further than `most`.
pub(crate) fn pending(conn: &Connection, principal: &str, most: u32) -> Result<u32, Fail> {
    let counted = conn
        .prepare_cached("SELECT min(count, ?2) FROM unfinished WHERE principal = ?1")?
        .query_row((principal, most), |row| small(row, 0))
        .optional()?;
    Ok(counted.unwrap_or_default())
}

/// The earliest moment at which an endpoint has to be verified.
pub(crate) fn next_verification(conn: &Connection) -> Result<Option<StoreMillis>, Fail> {
    Ok(conn
        .prepare_cached("SELECT min(verify_at) FROM endpoints WHERE verify_at IS NOT NULL")?
        .query_row([], |row| row.get(0))?)
}

/// The earliest moment at which a line is to be looked at, an endpoint to be verified, or a wait ends.
///
/// Here and elsewhere `INDEXED BY` names the index where SQLite, which keeps no statistics of this file, would take one that
/// walks over everything that waits, or everything that is finished.
pub(crate) fn next_due(conn: &Connection) -> Result<Option<StoreMillis>, Fail> {
    let first = |sql: &str| conn.prepare_cached(sql)?.query_row([], |row| row.get::<_, Option<StoreMillis>>(0));
    let line = first("SELECT min(at) FROM endpoints WHERE suspect = 0 AND at IS NOT NULL")?;
    let suspect = first("SELECT min(at) FROM endpoints WHERE suspect = 1 AND at IS NOT NULL")?;
    let verify = next_verification(conn)?;
    let late = first("SELECT min(wait_until) FROM deliveries INDEXED BY deliveries_late WHERE queue IN (0, 4)")?;
    let let_go = first("SELECT min(at) FROM deliveries WHERE queue = 3")?;
    Ok([line, suspect, verify, late, let_go].into_iter().flatten().min())
}

/// What a line is in the database: its row, and what is written of it.
pub(crate) struct LineRow {
    pub(crate) n: i64,
    pub(crate) at: Option<StoreMillis>,
}

impl Tx<'_> {
    pub(crate) fn endpoint(&mut self, news: &EndpointNews) -> Result<(), Fail> {
        self.saw(news.now);
        let is_name = matches!(news.learned, Learned::NamedForProof | Learned::NamedTrusted(_));
        let found = self
            .conn
            .prepare_cached(&format!("SELECT {STANDING}, n, named_at FROM endpoints WHERE uid = ?1"))?
            .query_row([&news.key.0], |row| Ok((standing(row)?, row.get::<_, i64>(13)?, row.get::<_, i64>(14)?)))
            .optional()?;
        let found_before = found.is_some();
        let (before, n, named_at) = match found {
            Some(found) => found,
            None if is_name => {
                let n = self.new_endpoint(news.key, &news.owner, &Standing::default(), news.now)?;
                (Standing::default(), n, news.now)
            }
            None => return Ok(()),
        };
        let after = before.learn(&news.policy, news.learned, news.now);
        if after != before {
            self.put_standing(n, &after)?;
            if is_name && found_before {
                let route = self.seal_route(news.key, &news.owner)?;
                self.conn.prepare_cached("UPDATE endpoints SET route = ?2 WHERE n = ?1")?.execute((n, route))?;
            }
        }
        // That it is still named only matters by the day.
        if is_name && news.now.saturating_sub(named_at) > 60_000 {
            self.conn.prepare_cached("UPDATE endpoints SET named_at = ?2 WHERE n = ?1")?.execute((n, news.now))?;
        }
        if after != before { self.wake(n) } else { Ok(()) }
    }

    pub(crate) fn new_endpoint(
        &self,
        key: EndpointKey,
        owner: &EndpointOwner,
        standing: &Standing,
        now: StoreMillis,
    ) -> Result<i64, Fail> {
        let route = self.seal_route(key, owner)?;
        self.conn
            .prepare_cached(
                "INSERT INTO endpoints (uid, principal, host, route, named_at, tat, turn, state, refusals, failures, open_until, good)
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 'unverified', 0, 0, 0, 0)",
            )?
            .execute(params![key.0, owner.principal, owner.host, route, now])?;
        let n = self.conn.last_insert_rowid();
        self.put_standing(n, standing)?;
        Ok(n)
    }

    fn seal_route(&self, key: EndpointKey, owner: &EndpointOwner) -> Result<Vec<u8>, Fail> {
        if owner.route.0.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.core.sealer.seal(&owner.route.0, Field::EndpointRoute, &key.0)?)
    }

    /// The line of a delivery's endpoint, made if need be.
    pub(crate) fn line_of(&self, key: EndpointKey, principal: &str, now: StoreMillis) -> Result<LineRow, Fail> {
        let found = self
            .conn
            .prepare_cached("SELECT n, at FROM endpoints WHERE uid = ?1")?
            .query_row([&key.0], |row| Ok(LineRow { n: row.get(0)?, at: row.get(1)? }))
            .optional()?;
        if let Some(line) = found {
            return Ok(line);
        }
        let owner = EndpointOwner { principal: principal.to_owned(), ..EndpointOwner::default() };
        let trusted = Learned::NamedTrusted(Proof::Address);
        let standing = Standing::default().learn(&EndpointPolicy::default(), trusted, now);
        Ok(LineRow { n: self.new_endpoint(key, &owner, &standing, now)?, at: None })
    }

    fn put_standing(&self, n: i64, standing: &Standing) -> Result<(), Fail> {
        self.conn
            .prepare_cached(
                "UPDATE endpoints SET state = ?2, proof = ?3, proven_at = ?4, proven_until = ?5, disabled = ?6,
                     disabled_at = ?7, verify_at = ?8, refusals = ?9, failures = ?10, failing_since = ?11,
                     open_until = ?12, good = ?13, last_error = ?14 WHERE n = ?1",
            )?
            .execute(params![
                n,
                standing.state.as_str(),
                standing.proof.map(Proof::as_str),
                standing.proven_at,
                standing.proven_until,
                standing.disabled.map(|(reason, _)| reason.as_str()),
                standing.disabled.map(|(_, at)| at),
                standing.verify_at,
                standing.refusals,
                standing.health.failures,
                standing.health.failing_since,
                standing.health.open_until,
                standing.health.good,
                standing.last_error.map(Category::as_str),
            ])?;
        Ok(())
    }

    /// The same as [`wake`](Self::wake) for a line that others of this group may wake as well: once, before anybody looks.
    pub(crate) fn wake_later(&mut self, n: i64) {
        self.woken.insert(n);
    }

    /// Wakes what is to be woken.
    pub(crate) fn wake_woken(&mut self) -> Result<(), Fail> {
        std::mem::take(&mut self.woken).into_iter().try_for_each(|n| self.wake(n))
    }

    /// Has a line looked at when its next delivery is due, unless it is sooner already.
    pub(crate) fn wake(&self, n: i64) -> Result<(), Fail> {
        if let Some(due) = self.next_waiting_of(n)? {
            self.wake_at(n, due)?;
        }
        Ok(())
    }

    pub(crate) fn wake_at(&self, n: i64, at: StoreMillis) -> Result<(), Fail> {
        self.conn
            .prepare_cached("UPDATE endpoints SET at = ?2 WHERE n = ?1 AND (at IS NULL OR at > ?2)")?
            .execute((n, at))?;
        Ok(())
    }

    pub(crate) fn next_waiting_of(&self, n: i64) -> Result<Option<StoreMillis>, Fail> {
        Ok(self
            .conn
            .prepare_cached(
                "SELECT min(at) FROM deliveries INDEXED BY deliveries_waiting WHERE endpoint = ?1 AND queue = 0",
            )?
            .query_row([n], |row| row.get(0))?)
    }

    pub(crate) fn take_unverified(
        &mut self,
        now: StoreMillis,
        until: StoreMillis,
        limit: u32,
    ) -> Result<Vec<EndpointRecord>, Fail> {
        self.saw(now);
        let due: Vec<(i64, Result<EndpointRecord, Fail>)> = {
            let mut select = self.conn.prepare_cached(&format!(
                "SELECT {STANDING}, {RECORD}, n FROM endpoints WHERE verify_at <= ?1 ORDER BY verify_at, n LIMIT ?2"
            ))?;
            let rows = select.query_map((now, limit), |row| Ok((row.get(17)?, record(self.core, row)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut taken = Vec::with_capacity(due.len());
        for (n, record) in due {
            match record {
                Ok(record) => taken.push(record),
                Err(Fail::Own(error)) => tracing::error!(%error, "an endpoint cannot be verified"),
                Err(other) => return Err(other),
            }
            self.conn.prepare_cached("UPDATE endpoints SET verify_at = ?2 WHERE n = ?1")?.execute((n, until))?;
        }
        Ok(taken)
    }

    pub(crate) fn prove_origin(&self, proof: &OriginProof) -> Result<Done, Fail> {
        let OriginProof { principal, origin, document, until } = proof;
        self.conn
            .prepare_cached(
                "INSERT INTO origin_proofs (principal, origin, document, until) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (principal, origin) DO UPDATE SET document = ?3, until = ?4",
            )?
            .execute((principal, origin, document, until))?;
        Ok(Done::Nothing)
    }

    /// Forgets up to `limit` of what origins published and what does not count `now`. Answers how many.
    pub(crate) fn forget_proofs(&self, now: StoreMillis, limit: usize) -> Result<usize, Fail> {
        Ok(self
            .conn
            .prepare_cached(
                "DELETE FROM origin_proofs WHERE (principal, origin) IN (
                     SELECT principal, origin FROM origin_proofs WHERE until <= ?1 LIMIT ?2)",
            )?
            .execute((now, i64::try_from(limit).unwrap_or(i64::MAX)))?)
    }

    /// The first line to look at, by (at, turn).
    pub(crate) fn first_line(&self, now: StoreMillis, suspects: bool) -> Result<Option<i64>, Fail> {
        let first = |suspect: bool| {
            self.conn
                .prepare_cached(
                    "SELECT at, turn, n FROM endpoints WHERE suspect = ?1 AND at <= ?2 ORDER BY at, turn, n LIMIT 1",
                )?
                .query_row((suspect, now), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()
        };
        let mut firsts: Vec<(StoreMillis, i64, i64)> = first(false)?.into_iter().collect();
        if suspects {
            firsts.extend(first(true)?);
        }
        Ok(firsts.into_iter().min().map(|(.., n)| n))
    }

    pub(crate) fn read_line(&self, n: i64) -> Result<Line, Fail> {
        Ok(self
            .conn
            .prepare_cached(&format!("SELECT {STANDING}, principal, host, tat, at, turn FROM endpoints WHERE n = ?1"))?
            .query_row([n], |row| {
                Ok(Line {
                    standing: standing(row)?,
                    principal: row.get(13)?,
                    host: row.get(14)?,
                    tat: row.get(15)?,
                    at: row.get(16)?,
                    turn: row.get(17)?,
                })
            })?)
    }

    /// Of the standing only a proof that lapsed is written here: nothing else changes by looking at a line.
    pub(crate) fn write_line(&self, n: i64, line: &Line) -> Result<(), Fail> {
        self.conn
            .prepare_cached(
                "UPDATE endpoints SET at = ?2, turn = ?3, tat = ?4, state = ?5, verify_at = ?6 WHERE n = ?1",
            )?
            .execute(params![n, line.at, line.turn, line.tat, line.standing.state.as_str(), line.standing.verify_at])?;
        Ok(())
    }

    pub(crate) fn host_row(&self, host: &str) -> Result<HostRow, Fail> {
        let found = self
            .conn
            .prepare_cached("SELECT tat, clock FROM hosts WHERE host = ?1")?
            .query_row([host], |row| Ok(HostRow { tat: row.get(0)?, clock: row.get(1)? }))
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    pub(crate) fn write_host(&self, host: &str, row: HostRow) -> Result<(), Fail> {
        self.conn
            .prepare_cached(
                "INSERT INTO hosts (host, tat, clock) VALUES (?1, ?2, ?3)
                 ON CONFLICT (host) DO UPDATE SET tat = ?2, clock = ?3",
            )?
            .execute((host, row.tat, row.clock))?;
        Ok(())
    }

    pub(crate) fn host_share(&self, host: &str, principal: &str) -> Result<i64, Fail> {
        let found = self
            .conn
            .prepare_cached("SELECT tag FROM host_shares WHERE host = ?1 AND principal = ?2")?
            .query_row((host, principal), |row| row.get(0))
            .optional()?;
        Ok(found.unwrap_or_default())
    }

    pub(crate) fn write_share(&self, host: &str, principal: &str, tag: i64) -> Result<(), Fail> {
        self.conn
            .prepare_cached(
                "INSERT INTO host_shares (host, principal, tag) VALUES (?1, ?2, ?3)
                 ON CONFLICT (host, principal) DO UPDATE SET tag = ?3",
            )?
            .execute((host, principal, tag))?;
        Ok(())
    }

    /// Forgets up to `limit` endpoints that were named last at or before `by` and that nothing refers to, and what hosts
    /// without endpoints shared. Answers how many.
    pub(crate) fn forget_endpoints(&self, by: StoreMillis, limit: usize) -> Result<usize, Fail> {
        let forgotten = self
            .conn
            .prepare_cached(
                "DELETE FROM endpoints WHERE n IN (
                     SELECT n FROM endpoints AS old WHERE named_at <= ?1
                         AND NOT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = old.n) LIMIT ?2)",
            )?
            .execute((by, i64::try_from(limit).unwrap_or(i64::MAX)))?;
        if forgotten > 0 {
            self.conn.execute_batch(
                "DELETE FROM hosts WHERE NOT EXISTS (SELECT 1 FROM endpoints WHERE endpoints.host = hosts.host);
                 DELETE FROM host_shares WHERE NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.host = host_shares.host);",
            )?;
        }
        Ok(forgotten)
    }
}

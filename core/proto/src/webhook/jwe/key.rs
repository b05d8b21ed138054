//! Keys of receivers, as JWKs (RFC 7517; RFC 7518 section 6.2 for P-256, RFC 8037 section 2 for X25519).

use core::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::elliptic_curve::sec1::ToSec1Point;
use serde::Deserialize;

use crate::json;

/// The longest `kid`.
pub const MAX_KEY_ID_CHARS: usize = 128;

/// A scalar that no point of small order survives, for telling those.
const ANY_SCALAR: [u8; 32] = [0x42; 32];

/// The members of a JWK that count here; all others are ignored, as RFC 7517 section 4 asks.
#[derive(Clone, Default, Deserialize)]
pub struct Jwk {
    /// Key type.
    pub kty: Option<String>,
    /// Curve.
    pub crv: Option<String>,
    /// Coordinate: 32 bytes in base64url without padding.
    pub x: Option<String>,
    /// The same, of P-256 only.
    pub y: Option<String>,
    /// The private key, likewise.
    pub d: Option<String>,
    /// The key's name, which the receiver is told with each message.
    pub kid: Option<String>,
    /// What the key is for.
    #[serde(rename = "use")]
    pub usage: Option<String>,
    /// The one algorithm it is for.
    pub alg: Option<String>,
}

impl fmt::Debug for Jwk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwk")
            .field("kty", &self.kty)
            .field("crv", &self.crv)
            .field("kid", &self.kid)
            .finish_non_exhaustive()
    }
}

/// Why a JWK is no key for encrypted bodies. Never holds any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFault {
    /// A member that is needed is not there.
    Missing(&'static str),
    /// Neither an `EC` nor an `OKP` key.
    Type,
    /// Another curve than P-256 (`EC`) or X25519 (`OKP`).
    Curve,
    /// A coordinate is not 32 bytes in base64url without padding.
    Coordinate(&'static str),
    /// The coordinates are of no point of the curve, of one of small order, or of another key than `d`.
    Point,
    /// `kid` is empty or too long.
    Name,
    /// `use` is something else than `enc`.
    Use,
    /// `alg` is something else than `ECDH-ES`.
    Algorithm,
    /// A private key where a public one is wanted: who sends it has lost it.
    Private,
}

impl KeyFault {
    /// A stable machine-readable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing(_) => "missing",
            Self::Type => "key_type",
            Self::Curve => "key_curve",
            Self::Coordinate(_) => "key_coordinate",
            Self::Point => "key_point",
            Self::Name => "key_name",
            Self::Use => "key_use",
            Self::Algorithm => "key_algorithm",
            Self::Private => "key_private",
        }
    }

    /// The member that breaks the rule; `None`: the key as a whole does.
    pub const fn member(self) -> Option<&'static str> {
        match self {
            Self::Missing(_) | Self::Point => None,
            Self::Type => Some("kty"),
            Self::Curve => Some("crv"),
            Self::Coordinate(member) => Some(member),
            Self::Name => Some("kid"),
            Self::Use => Some("use"),
            Self::Algorithm => Some("alg"),
            Self::Private => Some("d"),
        }
    }
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(member) => write!(f, "{member} is required"),
            Self::Type => f.write_str("kty must be EC or OKP"),
            Self::Curve => f.write_str("crv must be P-256 for an EC key, X25519 for an OKP key"),
            Self::Coordinate(member) => write!(f, "{member} must be base64url of 32 bytes, without padding"),
            Self::Point => f.write_str("the coordinates must be those of a key on the curve"),
            Self::Name => write!(f, "kid must have 1 to {MAX_KEY_ID_CHARS} characters"),
            Self::Use => f.write_str("use must be enc"),
            Self::Algorithm => f.write_str("alg must be ECDH-ES"),
            Self::Private => f.write_str("d must not be there: it is the private key"),
        }
    }
}

impl core::error::Error for KeyFault {}

/// The key that a receiver publishes.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    pub(super) point: Point,
    pub(super) kid: Option<String>,
}

/// A key on one of the curves.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Point {
    P256(p256::PublicKey),
    X25519(x25519_dalek::PublicKey),
}

impl Point {
    fn parse(jwk: &Jwk) -> Result<Self, KeyFault> {
        match (required(&jwk.kty, "kty")?, required(&jwk.crv, "crv")?) {
            ("EC", "P-256") => {
                let (x, y) = (coordinate(&jwk.x, "x")?, coordinate(&jwk.y, "y")?);
                let point = p256::PublicKey::from_sec1_bytes(&[&[4_u8][..], &x, &y].concat());
                point.map(Self::P256).map_err(|_| KeyFault::Point)
            }
            ("OKP", "X25519") => {
                let point = x25519_dalek::PublicKey::from(coordinate(&jwk.x, "x")?);
                // RFC 7748 section 6.1: what comes out must not be zero, as it does for points of small order.
                let shared = x25519_dalek::StaticSecret::from(ANY_SCALAR).diffie_hellman(&point);
                if shared.was_contributory() { Ok(Self::X25519(point)) } else { Err(KeyFault::Point) }
            }
            ("EC" | "OKP", _) => Err(KeyFault::Curve),
            _ => Err(KeyFault::Type),
        }
    }

    /// The JWK: what RFC 7638 hashes, in its order.
    pub(super) fn push_json(&self, out: &mut String) {
        match self {
            Self::P256(key) => {
                let point = key.to_sec1_point(false);
                let (x, y) = (point.x().map(base64url), point.y().map(base64url));
                let (x, y) = (x.unwrap_or_default(), y.unwrap_or_default());
                out.push_str(&format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#));
            }
            Self::X25519(key) => {
                out.push_str(&format!(r#"{{"crv":"X25519","kty":"OKP","x":"{}"}}"#, base64url(key.as_bytes())));
            }
        }
    }
}

impl PublicKey {
    /// The key that a JWK holds.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn from_jwk(jwk: &Jwk) -> Result<Self, KeyFault> {
        if jwk.d.is_some() {
            return Err(KeyFault::Private);
        }
        Self::of(jwk)
    }

    fn of(jwk: &Jwk) -> Result<Self, KeyFault> {
        let point = Point::parse(jwk)?;
        if jwk.usage.as_deref().is_some_and(|usage| usage != "enc") {
            return Err(KeyFault::Use);
        }
        if jwk.alg.as_deref().is_some_and(|alg| alg != "ECDH-ES") {
            return Err(KeyFault::Algorithm);
        }
        let fits = |kid: &String| !kid.is_empty() && kid.chars().count() <= MAX_KEY_ID_CHARS;
        if !jwk.kid.as_ref().is_none_or(fits) {
            return Err(KeyFault::Name);
        }
        Ok(Self { point, kid: jwk.kid.clone() })
    }

    /// The key's name, where it has one.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The JSON text of the JWK.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.point.push_json(&mut out);
        if let Some(kid) = &self.kid {
            out.pop();
            json::push_name(&mut out, "kid");
            json::push_string(&mut out, kid);
            out.push('}');
        }
        out
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// A receiver's own key. `Debug` does not show it, and its bytes are overwritten when it is dropped.
#[derive(Clone)]
pub struct PrivateKey {
    pub(super) scalar: Scalar,
    public: PublicKey,
}

#[derive(Clone)]
pub(super) enum Scalar {
    P256(p256::SecretKey),
    X25519(x25519_dalek::StaticSecret),
}

impl Scalar {
    /// What both sides come to (RFC 7518 section 4.6.2: Z). `None`: the keys are on different curves, or `with` is of small
    /// order.
    pub(super) fn shared(&self, with: &Point) -> Option<[u8; 32]> {
        match (self, with) {
            (Self::P256(own), Point::P256(other)) => Some((*own.diffie_hellman(other).raw_secret_bytes()).into()),
            (Self::X25519(own), Point::X25519(other)) => {
                let shared = own.diffie_hellman(other);
                shared.was_contributory().then(|| shared.to_bytes())
            }
            _ => None,
        }
    }

    pub(super) fn public(&self) -> Point {
        match self {
            Self::P256(own) => Point::P256(own.public_key()),
            Self::X25519(own) => Point::X25519(own.into()),
        }
    }
}

impl PrivateKey {
    /// Reads the JSON text of a JWK with `d`.
    ///
    /// # Errors
    /// The first rule that it breaks; text that is no JSON object has no `kty`.
    pub fn parse(text: &str) -> Result<Self, KeyFault> {
        let jwk: Jwk = serde_json::from_str(text).map_err(|_| KeyFault::Missing("kty"))?;
        let public = PublicKey::of(&jwk)?;
        let d = coordinate(&jwk.d, "d")?;
        let scalar = match public.point {
            Point::P256(_) => Scalar::P256(p256::SecretKey::from_slice(&d).map_err(|_| KeyFault::Point)?),
            Point::X25519(_) => Scalar::X25519(d.into()),
        };
        if scalar.public() == public.point { Ok(Self { scalar, public }) } else { Err(KeyFault::Point) }
    }

    /// The key for senders.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PrivateKey").field(&self.public).finish()
    }
}

fn required<'a>(member: &'a Option<String>, name: &'static str) -> Result<&'a str, KeyFault> {
    member.as_deref().ok_or(KeyFault::Missing(name))
}

fn coordinate(member: &Option<String>, name: &'static str) -> Result<[u8; 32], KeyFault> {
    let bytes = URL_SAFE_NO_PAD.decode(required(member, name)?).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(KeyFault::Coordinate(name))
}

fn base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

//! Names of TLS alerts as RFC 8446 §6 and RFC 5246 §7.2 spell them.

use rustls::AlertDescription as Alert;

/// The name in snake case; `unknown` for a number without one.
pub(super) const fn name(alert: Alert) -> &'static str {
    match alert {
        Alert::CloseNotify => "close_notify",
        Alert::UnexpectedMessage => "unexpected_message",
        Alert::BadRecordMac => "bad_record_mac",
        Alert::DecryptionFailed => "decryption_failed",
        Alert::RecordOverflow => "record_overflow",
        Alert::DecompressionFailure => "decompression_failure",
        Alert::HandshakeFailure => "handshake_failure",
        Alert::NoCertificate => "no_certificate",
        Alert::BadCertificate => "bad_certificate",
        Alert::UnsupportedCertificate => "unsupported_certificate",
        Alert::CertificateRevoked => "certificate_revoked",
        Alert::CertificateExpired => "certificate_expired",
        Alert::CertificateUnknown => "certificate_unknown",
        Alert::IllegalParameter => "illegal_parameter",
        Alert::UnknownCA => "unknown_ca",
        Alert::AccessDenied => "access_denied",
        Alert::DecodeError => "decode_error",
        Alert::DecryptError => "decrypt_error",
        Alert::ExportRestriction => "export_restriction",
        Alert::ProtocolVersion => "protocol_version",
        Alert::InsufficientSecurity => "insufficient_security",
        Alert::InternalError => "internal_error",
        Alert::InappropriateFallback => "inappropriate_fallback",
        Alert::UserCanceled => "user_canceled",
        Alert::NoRenegotiation => "no_renegotiation",
        Alert::MissingExtension => "missing_extension",
        Alert::UnsupportedExtension => "unsupported_extension",
        Alert::CertificateUnobtainable => "certificate_unobtainable",
        Alert::UnrecognisedName => "unrecognized_name",
        Alert::BadCertificateStatusResponse => "bad_certificate_status_response",
        Alert::BadCertificateHashValue => "bad_certificate_hash_value",
        Alert::UnknownPSKIdentity => "unknown_psk_identity",
        Alert::CertificateRequired => "certificate_required",
        Alert::NoApplicationProtocol => "no_application_protocol",
        Alert::EncryptedClientHelloRequired => "ech_required",
        _ => "unknown",
    }
}

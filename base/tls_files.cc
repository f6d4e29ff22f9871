#include "base/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace weft {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using CertificatePtr = std::unique_ptr<X509, Free>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free>;

// OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

std::unique_ptr<BIO, Free> Open(const std::string& pem) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

absl::StatusOr<std::string> ReadIfNamed(const std::string& path) {
  if (path.empty()) return std::string();
  return ReadFile(path);
}

absl::StatusOr<CertificatePtr> ParseCertificate(const std::string& pem, const std::string& path) {
  CertificatePtr certificate(PEM_read_bio_X509(Open(pem).get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (!certificate) return absl::InvalidArgumentError(absl::StrCat(path, " holds no PEM certificate"));
  return certificate;
}

absl::StatusOr<KeyPtr> ParseKey(const std::string& pem, const std::string& path) {
  KeyPtr key(PEM_read_bio_PrivateKey(Open(pem).get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (!key)
    return absl::InvalidArgumentError(absl::StrCat(path, " holds no PEM private key without a passphrase"));
  return key;
}

absl::Status CheckPair(const TlsMaterial& material, const std::string& certificate_file,
                       const std::string& key_file) {
  if (certificate_file.empty() || key_file.empty()) return absl::OkStatus();
  absl::StatusOr<CertificatePtr> certificate = ParseCertificate(material.certificate_chain, certificate_file);
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<KeyPtr> key = ParseKey(material.private_key, key_file);
  if (!key.ok()) return key.status();
  const bool fits = X509_check_private_key(certificate->get(), key->get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key_file, " is not the key of ", certificate_file));
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsFiles(const std::string& certificate_file, const std::string& key_file,
                                         const std::string& ca_file) {
  TlsMaterial material;
  const std::pair<const std::string*, std::string*> wanted[] = {
      {&certificate_file, &material.certificate_chain},
      {&key_file, &material.private_key},
      {&ca_file, &material.ca}};
  for (const auto& [path, out] : wanted) {
    absl::StatusOr<std::string> text = ReadIfNamed(*path);
    if (!text.ok()) return text.status();
    *out = *std::move(text);
  }
  if (!ca_file.empty()) {
    if (absl::Status status = ParseCertificate(material.ca, ca_file).status(); !status.ok()) return status;
  }
  if (absl::Status status = CheckPair(material, certificate_file, key_file); !status.ok()) return status;
  return material;
}

}  // namespace weft

#include "base/tls_files.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class TlsFilesTest : public ::testing::Test {
 protected:
  TlsFilesTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-tls-XXXXXX").string();
    dir_ = mkdtemp(pattern.data());
    MakePair("one");
    MakePair("two");
    std::ofstream(File("garbage")) << "-----BEGIN CERTIFICATE-----\nnonsense\n";
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(dir_); }

  std::string File(const std::string& name) const { return dir_ + "/" + name; }
  std::string Error(const std::string& certificate, const std::string& key, const std::string& ca) const {
    const auto path = [this](const std::string& name) { return name.empty() ? "" : File(name); };
    const absl::StatusOr<TlsMaterial> read = ReadTlsFiles(path(certificate), path(key), path(ca));
    return read.ok() ? "" : std::string(read.status().message());
  }

  // NAME.crt, signed by itself, and NAME.key; NAME.locked is the key with a passphrase.
  void MakePair(const std::string& name) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* certificate = X509_new();
    X509_set_pubkey(certificate, key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_sign(certificate, key, EVP_sha256());
    FILE* file = fopen(File(name + ".crt").c_str(), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
    file = fopen(File(name + ".key").c_str(), "w");
    PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
    fclose(file);
    file = fopen(File(name + ".locked").c_str(), "w");
    unsigned char pass[] = "secret";
    PEM_write_PrivateKey(file, key, EVP_aes_256_cbc(), pass, 6, nullptr, nullptr);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  std::string dir_;
};

TEST_F(TlsFilesTest, WhatFitsIsRead) {
  const auto read = ReadTlsFiles(File("one.crt"), File("one.key"), File("two.crt"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->certificate_chain, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(read->private_key, HasSubstr("PRIVATE KEY"));
  EXPECT_THAT(read->ca, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_EQ(Error("", "", "one.crt"), "");
  EXPECT_EQ(Error("", "", ""), "");
}

TEST_F(TlsFilesTest, WhatDoesNotIsNamed) {
  EXPECT_THAT(Error("one.crt", "two.key", "two.crt"), HasSubstr("two.key is not the key of"));
  EXPECT_THAT(Error("garbage", "one.key", ""), HasSubstr("garbage holds no PEM certificate"));
  EXPECT_THAT(Error("one.crt", "one.crt", ""), HasSubstr("one.crt holds no PEM private key"));
  EXPECT_THAT(Error("one.crt", "one.locked", ""), HasSubstr("one.locked holds no PEM private key"));
  EXPECT_THAT(Error("one.crt", "one.key", "garbage"), HasSubstr("garbage holds no PEM certificate"));
  EXPECT_THAT(Error("one.crt", "one.key", "absent"), HasSubstr("absent"));
}

}  // namespace
}  // namespace weft

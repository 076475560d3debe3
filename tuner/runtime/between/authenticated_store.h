#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "profiler/base/error.h"
#include "profiler/base/rank.h"

namespace mptune::tuner {

/// A text in the store of the ranks was written by somebody else.
class ForeignWrite : public Error {
 public:
  ForeignWrite(const std::string& name, const std::string& address);
};

/// The part of another store that belongs to one start of these ranks. Names begin with a hash of the ranks' token, so that others find
/// them only by listening on the network. Each text has an HMAC of its name and itself with the token in front, so that others can't write
/// there unnoticed: get() and compareSet() throw ForeignWrite for a text without it. The numbers of add() have no HMAC. With an empty token
/// anybody can make the HMAC.
class AuthenticatedStore final : public c10d::Store {
 public:
  AuthenticatedStore(c10::intrusive_ptr<c10d::Store> inner, RankPlace place, std::string address);

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  /// An empty `expected` stands for no text, as in c10d's stores.
  std::vector<std::uint8_t> compareSet(const std::string& key, const std::vector<std::uint8_t>& expected,
                                       const std::vector<std::uint8_t>& desired) override;
  std::vector<std::uint8_t> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  std::int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override;

 private:
  using Bytes = std::vector<std::uint8_t>;
  [[nodiscard]] std::string own(const std::string& key) const { return prefix_ + key; }
  [[nodiscard]] std::vector<std::string> own(const std::vector<std::string>& keys) const;
  [[nodiscard]] std::string code_of(const std::string& key, const std::string& text) const;
  [[nodiscard]] Bytes with_code(const std::string& key, const Bytes& text) const;
  /// Checks the code in front of the text and returns the text.
  [[nodiscard]] Bytes checked(const std::string& key, const Bytes& bytes) const;

  c10::intrusive_ptr<c10d::Store> inner_;
  RankPlace place_;
  std::string prefix_, address_;
};

}  // namespace mptune::tuner

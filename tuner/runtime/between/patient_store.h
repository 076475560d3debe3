#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "profiler/base/error.h"

namespace mptune::tuner {

/// The process that keeps the ranks' store does not answer, though its connection has not ended: it is stopped, or its machine is gone.
class StoreSilent : public Error {
 public:
  explicit StoreSilent(const std::string& address);
};

/// Does work in a thread of its own, one piece after the other, so that the caller need not wait for ever. Thread-safe. A piece that does
/// not end keeps the thread until it ends, also after this object has gone.
class BackgroundThread {
 public:
  BackgroundThread();
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Returns whether the work has ended within `limit`, and throws what the work throws. Returns false at once while an earlier piece,
  /// which took longer than its limit, goes on. Requires: `work` owns all that it uses.
  [[nodiscard]] bool done_within(std::chrono::milliseconds limit, std::function<void()> work);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// A store that asks another one and never waits for its answers for ever, as c10d's TCP store does while its connection lives. Every
/// function throws StoreSilent where an answer takes more than 10 s, and what the other store throws. wait() and get() look for the keys 50
/// times a second, at first more often, and throw std::runtime_error where their time is over. Thread-safe.
class PatientStore final : public c10d::Store {
 public:
  /// Opens the other store. Throws where it is not there within `patience`.
  using Opener = std::function<c10::intrusive_ptr<c10d::Store>(std::chrono::milliseconds patience)>;
  enum class Expected { now, later };
  /// Opens the other store. If it is expected later, asks `open` again until `patience` is over. Throws StoreSilent where it is there and
  /// does not answer within 10 s. `address`: for errors.
  PatientStore(const Opener& open, std::chrono::milliseconds patience, Expected expected, std::string address);

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
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
  using Inner = c10::intrusive_ptr<c10d::Store>;
  template <typename Answer>
  Answer asked(std::function<Answer(c10d::Store&)> ask);

  std::string address_;
  BackgroundThread thread_;
  Inner inner_;
};

}  // namespace mptune::tuner

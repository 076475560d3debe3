#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

namespace mptune::tuner {

/// Tells the other ranks once a second that this rank runs, and notices which of the ranks that it waits for do not run: a rank that is
/// stopped, or whose machine is gone, closes no connection. Thread-safe.
class RankHeartbeats {
 public:
  /// Requires: nothing else waits for answers of `store`. A thread of this object calls `silent` with a rank that is waited for and has
  /// given no sign of life for kSilentSeconds while this process ran. It calls it again each second for as long as both last.
  RankHeartbeats(c10::intrusive_ptr<c10d::Store> store, int rank, std::function<void(int rank)> silent);
  ~RankHeartbeats();
  RankHeartbeats(const RankHeartbeats&) = delete;
  RankHeartbeats& operator=(const RankHeartbeats&) = delete;

  static constexpr int kSilentSeconds = 20;

  /// While it lives, this rank waits for these ranks.
  class Wait {
   public:
    Wait(RankHeartbeats& beats, std::vector<int> ranks);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    RankHeartbeats& beats_;
    std::int64_t number_;
  };

 private:
  using Waits = std::map<std::int64_t, std::vector<int>>;  // the ranks of each wait, by its number
  struct Heard {
    std::int64_t beats = -1;
    int seconds_since = 0;  ///< at least
  };
  void loop();
  /// False once the store has ended: then connections say what becomes of the others.
  bool beat_and_look(const Waits& waits);
  /// Counts another second without a sign of life, unless the rank has beaten. `beats`: nothing where the store does not answer.
  void count(std::pair<std::int64_t, int> wait_and_rank, std::optional<std::int64_t> beats);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_;
  std::function<void(int)> silent_;
  std::map<std::pair<std::int64_t, int>, Heard> heard_;  ///< by wait and rank; the thread's own
  std::mutex mutex_;
  std::condition_variable changed_;
  Waits waits_;
  std::int64_t next_wait_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mptune::tuner

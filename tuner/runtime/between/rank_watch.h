#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tuner/runtime/between/rank_group.h"

namespace mptune::tuner {

/// Notices that other ranks have ended, or say nothing, while nothing else is received from them: what waits for tensors over NCCL would
/// wait for ever. The ranks send each other a byte four times a second.
class RankWatch {
 public:
  /// `others` watch this one, too. `lost` is called in a thread of this object, once for each rank that is lost, with what
  /// RankGroup::receive() throws. `tag`: of this use alone.
  RankWatch(RankGroup& group, int tag, std::vector<int> others, std::function<void(std::exception_ptr)> lost);
  /// Tells the others that it watches no longer.
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

 private:
  void send_to_all(bool goes_on);
  void beat();
  void watch(int other);

  RankGroup& group_;
  int tag_;
  std::vector<int> others_;
  std::function<void(std::exception_ptr)> lost_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace mptune::tuner

#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"
#include "tuner/runtime/step/batch_parts.h"

namespace mptune::tuner {

/// Puts what the devices of other ranks send into this rank's channels. Each pair of a device there and a device here that receives from it
/// has a thread, which receives in the order of sending.
class RankReceivers {
 public:
  /// `graph` outlives this. Without ranks there is nothing to do.
  explicit RankReceivers(BoundGraph& graph);
  ~RankReceivers();
  RankReceivers(const RankReceivers&) = delete;
  RankReceivers& operator=(const RankReceivers&) = delete;

  /// Begins a step over these parts of the batch. Errors go to BoundGraph::fail().
  void begin(const BatchParts& parts, bool backwards);
  /// Waits for all messages of the step, or until it has failed.
  void end();

 private:
  struct Expected {
    BoundLink* link = nullptr;
    MessageTag tag;
  };
  struct Receiver {
    int source = 0;
    int destination = 0;
    std::vector<Expected> of_step;  ///< set while the thread is idle
    bool busy = false;
    std::thread thread;
  };
  [[nodiscard]] std::vector<Expected> expected(int source, int destination, const BatchParts* parts, bool backwards) const;
  void loop(Receiver& receiver);
  void receive(const Receiver& receiver);
  void receive(const Receiver& receiver, const Expected& expected);

  BoundGraph& graph_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::deque<Receiver> receivers_;
};

}  // namespace mptune::tuner

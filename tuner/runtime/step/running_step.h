#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "tuner/runtime/graph/bound_graph.h"
#include "tuner/runtime/step/batch_parts.h"
#include "tuner/runtime/step/idle_help.h"

namespace mptune::tuner {

/// What the parts of StepRunner share: the graph, the step that runs, and where it is recorded. The thread that drives the step changes the
/// values between steps; all threads of a step read them, and the first compute thread that fails writes `failed_at`.
struct RunningStep {
  /// `bound` outlives this.
  explicit RunningStep(BoundGraph& bound) : graph(bound), help(bound) {}

  /// Runs `work` on all devices' compute threads, `meanwhile` in the calling thread, then `ended` there. Rethrows the first error when all
  /// have recovered.
  void run(const std::function<void(int device)>& work, const std::function<void()>& meanwhile = nullptr,
           const std::function<void()>& ended = nullptr);
  /// Calls `work` for each replica on the device, those of earlier stages first.
  void for_replicas(int device, const std::function<void(StageReplica&)>& work) const;

  [[nodiscard]] Tag tag_of(const BoundAction& bound) const {
    return {static_cast<int>(number), bound.action.stage, bound.action.microbatch, -1, bound.stage->replica()};
  }
  [[nodiscard]] Tag tag_of(const StageReplica& replica) const {
    return {static_cast<int>(number), replica.stage(), -1, -1, replica.replica()};
  }

  /// Waits for `ready()` to return true; the device helps others meanwhile. Returns when it last helped.
  template <class Ready>
  profiler::SteadyClock::time_point wait(int device, PendingWeights::Size first, const Ready& ready) {
    const auto tag = [this](const StageReplica& replica, int microbatch) {
      return Tag{static_cast<int>(number), replica.stage(), microbatch, -1, replica.replica()};
    };
    return help.wait(device, first, collector, tag, ready);
  }
  /// Waits, and helps others meanwhile. Returns false if the step has failed.
  [[nodiscard]] bool wait_unless_failed(int device, const std::function<bool()>& ready);
  /// Makes later work of the device start after all of these moments.
  void after(int device, const std::vector<MomentPtr>& moments) const;

  BoundGraph& graph;
  IdleHelp help;
  std::int64_t number = 0;  ///< of the step that runs, else of the next one
  BatchParts parts;
  HostCollector* collector = nullptr;  ///< null: nothing is recorded
  TagSink* gpus = nullptr;             ///< null: no work of GPUs is tagged
  bool running = false;                ///< device threads are at work; they may call what would else start work on them
  std::string failed_at;               ///< see Pipeline::failed_at()
};

/// Records what a replica does besides running its layers, from here to the end of this object's life, and tags the work that a GPU gets
/// meanwhile. Records nothing where nothing is recorded, or where the work throws.
class RecordedWork {
 public:
  RecordedWork(const RunningStep& step, StageReplica& replica, EventKind kind, const char* name)
      : RecordedWork(step, replica, kind, name, step.tag_of(replica)) {}
  RecordedWork(const RunningStep& step, StageReplica& replica, EventKind kind, const char* name, const Tag& tag)
      : recorder_(replica.recorder()), kind_(kind), name_(name), tag_(tag), scope_(step.gpus, tag, kind) {}
  ~RecordedWork() noexcept(false) {
    if (std::uncaught_exceptions() == exceptions_) recorder_.leaf(kind_, name_, tag_, start_);
  }
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;

 private:
  LeafRecorder& recorder_;
  EventKind kind_;
  const char* name_;
  Tag tag_;
  int exceptions_ = std::uncaught_exceptions();
  profiler::SteadyClock::time_point start_ = profiler::SteadyClock::now();
  TagScope scope_;
};

}  // namespace mptune::tuner

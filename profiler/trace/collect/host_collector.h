#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "profiler/trace/collect/collector.h"

namespace mptune {

/// Events that one thread records on one lane of a device. Appending takes no lock: use from one thread at a time.
class LaneLog {
 public:
  struct Entry {
    std::chrono::steady_clock::time_point start, end;
    EventKind kind = EventKind::host;
    int name = 0;
    Tag tag;
    Copy copy;  ///< EventKind::copy only
    bool range = false;
    int further = 0;  ///< weight gradients: number of micro-batches after the tag's that are fused with it
    int sender = -1;  ///< copies: the stage that computed what it sends
  };

  LaneLog(int device, int lane, std::string thread) : device_(device), lane_(lane), thread_(std::move(thread)) { entries_.reserve(1024); }

  void add(EventKind kind, int name, const Tag& tag, std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end,
           int further = 0) {
    entries_.push_back({start, end, kind, name, tag, {}, false, further, -1});
  }
  /// `tag`: of the stage that receives the copy; `sender`: the stage that computed what it sends.
  void add_copy(int name, const Tag& tag, int sender, const Copy& copy, std::chrono::steady_clock::time_point start,
                std::chrono::steady_clock::time_point end) {
    entries_.push_back({start, end, EventKind::copy, name, tag, copy, false, 0, sender});
  }
  void add_range(EventKind kind, int name, const Tag& tag, std::chrono::steady_clock::time_point start,
                 std::chrono::steady_clock::time_point end) {
    entries_.push_back({start, end, kind, name, tag, {}, true, 0, -1});
  }

 private:
  friend class HostCollector;
  /// Makes no event of a lane begin before the one before it has ended.
  void end_overlaps();
  int device_;
  int lane_;
  std::string thread_;
  std::vector<Entry> entries_;
};

/// What a collector has recorded, by the clock of its host.
struct HostLog {
  struct Lane {
    int device = 0;
    int lane = 0;
    std::string thread;
    std::vector<LaneLog::Entry> entries;
  };
  struct Memory {
    std::chrono::steady_clock::time_point time;
    int device = 0;
    std::int64_t bytes = 0;
  };
  struct Step {
    int step = 0;
    std::chrono::steady_clock::time_point start, end;
  };
  std::vector<TraceDevice> devices;  ///< as the collector has them
  std::vector<std::string> names;    ///< that entries name by index
  std::vector<Lane> lanes;
  std::vector<Memory> memory;
  std::vector<Step> steps;
};

/// Records by the host's monotonic clock. The runtime's threads write into lane logs, which stop() merges.
/// lane() and name() are thread-safe. A log is used by one thread at a time, and only between start() and stop().
class HostCollector final : public Collector {
 public:
  explicit HostCollector(std::vector<TraceDevice> devices);

  void start() override;
  Trace stop() override;
  /// Returns the start of the last recording, as time since the epoch of std::chrono::steady_clock: time 0 of its trace.
  [[nodiscard]] Nanoseconds started() const { return started_.time_since_epoch(); }

  /// Returns the log of a lane, created at first use; valid as long as this object. `thread` names the host thread that writes it.
  [[nodiscard]] LaneLog& lane(int device, int lane, const std::string& thread);
  /// Returns the index of a name, created at first use.
  [[nodiscard]] int name(const std::string& text);
  /// Adds a step, common to all devices. Called by the thread that runs the steps.
  void add_step(int step, std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point end);
  void add_memory(int device, std::int64_t current_bytes);

  /// Takes everything out, for put() of another process's collector with the same devices.
  [[nodiscard]] HostLog take();
  /// Adds what another collector recorded, with times on the clock of this host, and describes devices that are not described here. If
  /// copies overlap on a lane, the later one begins when the earlier one has ended. A step lasts from its first start to its last end, and
  /// begins when the one before it has ended. Requires: as many devices.
  void put(const HostLog& log);

 private:
  void put_steps(const std::vector<HostLog::Step>& steps);
  std::vector<TraceDevice> devices_;
  std::mutex mutex_;
  std::vector<std::string> names_;
  std::map<std::string, int> name_index_;
  std::deque<LaneLog> lanes_;
  std::map<std::pair<int, int>, LaneLog*> lane_index_;
  std::vector<HostLog::Step> steps_;
  std::vector<HostLog::Memory> memory_;
  std::chrono::steady_clock::time_point started_{};
  std::int64_t started_utc_ns_ = 0;
};

}  // namespace mptune

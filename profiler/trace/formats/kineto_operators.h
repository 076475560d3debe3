#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/trace/formats/chrome_events.h"
#include "profiler/trace/values/communication.h"
#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// What one thread of the host did, or waited for.
struct HostWork {
  std::string thread;  ///< "pid/tid"
  std::string name;
  Nanoseconds start{0};
  Nanoseconds end{0};
  int device = 0;      ///< index into HostThreads::devices
  bool waits = false;  ///< for other processes: a collective, a send or a receive
};

/// The threads that worked, as devices, and their work ordered by start. Work of one device does not overlap; waits may overlap anything.
struct HostThreads {
  std::vector<TraceDevice> devices;
  std::vector<HostWork> work;
  std::map<std::string, int> device_of_thread;  ///< by "pid/tid"
  std::int64_t dropped = 0;                     ///< rows without times that can be right
};

/// Gathers what threads of the host did in a Kineto trace, for traces that hold no work of a GPU.
///
///     main      [ aten::linear        ]      [ aten::add ]        work: outermost operators, without what they wait for
///                  [ aten::addmm ]
///               [ gloo:all_reduce                  ]              wait: it runs beside the thread
///
/// - Operators (`cpu_op`) are work. In a thread without operators, its innermost user annotations are work, except for those of steps.
/// - Operations of a backend between processes ("gloo:all_reduce") are waits; PyTorch's calls of them ("c10d::allreduce_") are neither.
/// - A thread without work is no device. Its waits belong to the device that works longest.
/// - Names: "main" if the thread has the number of its process; "autograd" if it spends most of its work on the nodes of autograd's graph;
///   else "thread:0", "thread:1", ... by their first work. Further threads of the same name are "main:1", "autograd:1", ...
class KinetoOperators {
 public:
  /// Looks at any row of the trace; its times as in the file.
  void take(const ChromeEvent& event);
  /// Forgets all rows.
  void clear();

  [[nodiscard]] HostThreads threads() const;

 private:
  enum class Kind : std::uint8_t { work, annotation, wait, call };
  struct Row {
    Nanoseconds start{0};
    Nanoseconds end{0};
    int name = 0;
    Kind kind = Kind::work;
  };
  using Rows = std::vector<Row>;
  struct Worker {
    std::string thread;
    Rows work;
    Nanoseconds busy{0};
  };

  static Kind kind_of(const ChromeEvent& event);
  /// Orders rows by start; of rows with the same start, the longest comes first.
  static void order_outer_first(Rows& rows);
  static Rows outermost(Rows rows);
  static Rows innermost(Rows rows);
  static Rows without(const Rows& rows, const Rows& parts);
  Rows work_of(const Rows& rows) const;
  std::string role_of(const std::string& thread, const Rows& work) const;
  /// Returns the threads that worked, by their first work.
  std::vector<Worker> workers() const;
  /// `count`: number of threads so far, by role.
  TraceDevice device_of(const Worker& worker, std::map<std::string, int>& count) const;
  void add_waits(int busiest, HostThreads& threads) const;

  std::map<std::string, Rows> rows_;                 // by thread
  std::map<std::string, std::string> thread_names_;  // by thread, as the file describes them
  std::map<std::string, int> index_of_name_;
  std::vector<std::string> names_;
  std::int64_t dropped_ = 0;
};

/// Returns the communications of a trace without GPUs, ordered by wait. `described` are those that the trace describes; their `event` is
/// the place of their wait. Other waits are described by their names: "gloo:all_reduce" is a collective "all_reduce".
[[nodiscard]] std::vector<Communication> with_waits(std::vector<Communication> described, const std::vector<HostWork>& waits);

}  // namespace mptune::profiler

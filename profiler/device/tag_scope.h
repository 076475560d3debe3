#pragma once

#include <cstdint>
#include <memory>

#include "profiler/trace/values/trace.h"

namespace mptune {

/// Tags work that a thread launches and a device runs later. Implemented by CuptiCollector, and by a fake in tests. Thread-safe.
class TagSink {
 public:
  virtual ~TagSink() = default;
  /// Returns the id of this tag for work of this kind, created at first use.
  [[nodiscard]] virtual std::uint64_t tag(const Tag& tag, EventKind kind) = 0;
  /// Gives the tag `id` to work that the calling thread launches until pop(); tags nest. Returns false if nothing is being recorded.
  [[nodiscard]] virtual bool push(std::uint64_t id) = 0;
  /// Removes the tag that the calling thread pushed last. Call it once for each push() that returned true, even after the recording ended.
  virtual void pop() = 0;
};

/// A tag that is passed to another thread; no tag if `sink` is null. The sink must outlive it.
struct CarriedTag {
  TagSink* sink = nullptr;
  std::uint64_t id = 0;
};

/// Tags all work that its thread launches during its lifetime, and work that autograd's threads launch for it (by at::ThreadLocalState).
/// Scopes nest; each ends on the thread that began it. Costs nothing without a sink.
class TagScope {
 public:
  /// `sink` may be null.
  TagScope(TagSink* sink, const Tag& tag, EventKind kind);
  /// Continues on this thread the tag that current_tag() returned on another.
  explicit TagScope(const CarriedTag& carried);
  ~TagScope();
  TagScope(const TagScope&) = delete;
  TagScope& operator=(const TagScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the tag of the calling thread's innermost scope.
[[nodiscard]] CarriedTag current_tag();

}  // namespace mptune

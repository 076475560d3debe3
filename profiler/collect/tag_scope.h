#pragma once

#include <cstdint>
#include <memory>

#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// Takes note of what a thread's work is for, where a device does that work later on: CuptiCollector, a fake in tests. Thread-safe.
class TagSink {
 public:
  virtual ~TagSink() = default;
  /// Id of this tag for work of this kind, made on first use.
  [[nodiscard]] virtual std::uint64_t tag(const Tag& tag, What what) = 0;
  /// What the calling thread starts from here to pop() carries the tag `id`; tags nest. False while nothing is recorded.
  [[nodiscard]] virtual bool push(std::uint64_t id) = 0;
  /// Takes off what the same thread pushed last. Exactly where push() returned true, also after the recording ended.
  virtual void pop() = 0;
};

/// A tag on its way to another thread; none where `sink` is null. The sink outlives it.
struct CarriedTag {
  TagSink* sink = nullptr;
  std::uint64_t id = 0;
};

/// While it lives, everything that its thread starts carries its tag, and so does what LibTorch starts on autograd's threads on behalf of
/// it: the tag travels with at::ThreadLocalState. Scopes nest; each ends on the thread that began it. Free of cost without a sink.
class TagScope {
 public:
  /// `sink` may be null.
  TagScope(TagSink* sink, const Tag& tag, What what);
  /// Continues on this thread what current_tag() gave on another.
  explicit TagScope(const CarriedTag& carried);
  ~TagScope();
  TagScope(const TagScope&) = delete;
  TagScope& operator=(const TagScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The tag of the innermost scope that the calling thread works for.
[[nodiscard]] CarriedTag current_tag();

}  // namespace mptune

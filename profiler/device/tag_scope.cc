#include "profiler/device/tag_scope.h"

#include <ATen/record_function.h>
#include <c10/core/AutogradState.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <optional>
#include <thread>

namespace mptune {
namespace {

// LibTorch has no DebugInfoKind for other programs. It never reads this one itself.
constexpr auto kKind = c10::DebugInfoKind::TEST_INFO_2;

struct Info final : c10::DebugInfoBase {
  CarriedTag tag;
  std::thread::id thread;  // the thread that pushed the tag for the whole scope
};

const Info* current_info() {
  return static_cast<const Info*>(c10::ThreadLocalDebugInfo::get(kKind));
}

// Tag that an operator has pushed on this thread of autograd; nested operators need not push it again.
thread_local const Info* pushed_for_operator = nullptr;

struct Pushed final : at::ObserverContext {
  Pushed(TagSink* of, const Info* before_it) : sink(of), before(before_it) {}
  TagSink* sink;
  const Info* before;
};

std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction&) {
  const Info* info = current_info();
  if (info == nullptr || info == pushed_for_operator || info->thread == std::this_thread::get_id()) return nullptr;
  if (!info->tag.sink->push(info->tag.id)) return nullptr;
  auto pushed = std::make_unique<Pushed>(info->tag.sink, pushed_for_operator);
  pushed_for_operator = info;
  return pushed;
}

void after_operator(const at::RecordFunction&, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* pushed = static_cast<const Pushed*>(context);
  pushed->sink->pop();
  pushed_for_operator = pushed->before;
}

std::shared_ptr<Info> info_of(const CarriedTag& carried) {
  auto info = std::make_shared<Info>();
  info->tag = carried;
  info->thread = std::this_thread::get_id();
  return info;
}

}  // namespace

struct TagScope::State {
  explicit State(const CarriedTag& carried)
      : sink(carried.sink), is_outermost(current_info() == nullptr), guard(kKind, info_of(carried)), is_pushed(sink->push(carried.id)) {
    // Operators on autograd's threads are observed by thread-local callbacks, which travel with the tag.
    if (is_outermost && c10::AutogradState::get_tls_state().get_multithreading_enabled())
      callback = at::addThreadLocalCallback(at::RecordFunctionCallback(before_operator, after_operator)
                                                .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~State() {
    if (callback) at::removeCallback(*callback);
    if (is_pushed) sink->pop();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  TagSink* sink;
  bool is_outermost;
  c10::DebugInfoGuard guard;
  bool is_pushed;
  std::optional<at::CallbackHandle> callback;
};

TagScope::TagScope(TagSink* sink, const Tag& tag, EventKind kind) {
  if (sink != nullptr) state_ = std::make_unique<State>(CarriedTag{sink, sink->tag(tag, kind)});
}

TagScope::TagScope(const CarriedTag& carried) {
  if (carried.sink != nullptr) state_ = std::make_unique<State>(carried);
}

TagScope::~TagScope() = default;

CarriedTag current_tag() {
  const Info* info = current_info();
  return info == nullptr ? CarriedTag{} : info->tag;
}

}  // namespace mptune

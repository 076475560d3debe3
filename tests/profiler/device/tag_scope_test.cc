#include "profiler/device/tag_scope.h"

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace mptune::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Stores every thread's tags, like CUPTI.
class FakeSink final : public TagSink {
 public:
  std::uint64_t tag(const Tag& tag, EventKind kind) override {
    const std::lock_guard lock(mutex_);
    tags_.push_back({tag, kind});
    return tags_.size();
  }
  bool push(std::uint64_t id) override {
    const std::lock_guard lock(mutex_);
    if (!recording) return false;
    stacks_[std::this_thread::get_id()].push_back(id);
    ++pushes;
    return true;
  }
  void pop() override {
    const std::lock_guard lock(mutex_);
    ASSERT_FALSE(stacks_[std::this_thread::get_id()].empty());
    stacks_[std::this_thread::get_id()].pop_back();
  }

  /// Stages of this thread's tags, outermost first.
  std::vector<int> stages() {
    const std::lock_guard lock(mutex_);
    std::vector<int> stages;
    for (const std::uint64_t id : stacks_[std::this_thread::get_id()]) stages.push_back(tags_.at(id - 1).first.stage);
    return stages;
  }
  bool all_popped() {
    const std::lock_guard lock(mutex_);
    for (const auto& [thread, stack] : stacks_)
      if (!stack.empty()) return false;
    return true;
  }

  bool recording = true;
  int pushes = 0;

 private:
  std::mutex mutex_;
  std::vector<std::pair<Tag, EventKind>> tags_;
  std::map<std::thread::id, std::vector<std::uint64_t>> stacks_;
};

Tag stage(int number) {
  return {.step = 0, .stage = number, .microbatch = 0};
}

/// Looks at the tags from within an operator, as the driver would at a launch.
class Probe {
 public:
  explicit Probe(FakeSink& sink) {
    current_ = this;
    sink_ = &sink;
    handle_ =
        at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
                                current_->see(function.name());
                                return nullptr;
                              }).scopes({at::RecordScope::FUNCTION}));
  }
  ~Probe() { at::removeCallback(handle_); }

  struct Seen {
    std::thread::id thread;
    std::vector<int> stages;
  };
  std::vector<Seen> seen(const std::string& name) { return seen_[name]; }

 private:
  void see(const std::string& name) {
    const std::lock_guard lock(mutex_);
    seen_[name].push_back({std::this_thread::get_id(), sink_->stages()});
  }

  inline static Probe* current_ = nullptr;
  FakeSink* sink_;
  std::mutex mutex_;
  std::map<std::string, std::vector<Seen>> seen_;
  at::CallbackHandle handle_;
};

/// An operator within an operator: the inner one is seen as a launch would be.
void work() {
  (void)at::matmul(at::ones({2, 2}), at::ones({2, 2}));
}
constexpr const char* kWork = "aten::mm";

void backward(const at::Tensor& loss) {
  torch::autograd::backward({loss}, {});
}

/// Backward within backward: from a depth of 60 on, autograd hands it to threads of its own.
void nested_backward(int depth, const std::function<void()>& innermost) {
  const at::AutoGradMode with_graph(true);
  at::Tensor input = at::ones({2}).set_requires_grad(true);
  at::Tensor output = input * 2;
  output.register_hook([depth, &innermost](const at::Tensor& gradient) {
    depth == 0 ? innermost() : nested_backward(depth - 1, innermost);
    return gradient;
  });
  backward(output.sum());
}

TEST(TagScope, TagsItsThreadAndNests) {
  FakeSink sink;
  {
    const TagScope outer(&sink, stage(1), EventKind::forward);
    EXPECT_THAT(sink.stages(), ElementsAre(1));
    {
      const TagScope inner(&sink, stage(2), EventKind::forward);
      EXPECT_THAT(sink.stages(), ElementsAre(1, 2));
    }
    EXPECT_THAT(sink.stages(), ElementsAre(1));
    std::thread([&] { EXPECT_THAT(sink.stages(), IsEmpty()); }).join();
  }
  EXPECT_TRUE(sink.all_popped());
}

TEST(TagScope, WithoutASinkNothingHappens) {
  const TagScope scope(nullptr, stage(1), EventKind::forward);
  EXPECT_EQ(current_tag().sink, nullptr);
}

TEST(TagScope, PopsOnlyWhatWasTaken) {
  FakeSink sink;
  sink.recording = false;
  {
    const TagScope scope(&sink, stage(1), EventKind::forward);
    sink.recording = true;  // a recording that begins within the scope
  }
  EXPECT_TRUE(sink.all_popped());
}

TEST(TagScope, ReachesHooksOnAutogradsThreads) {
  FakeSink sink;
  std::thread::id thread;
  std::vector<std::vector<int>> stages;
  Probe probe(sink);
  {
    const TagScope scope(&sink, stage(7), EventKind::backward);
    nested_backward(70, [&] {
      thread = std::this_thread::get_id();
      work();
    });
  }
  ASSERT_NE(thread, std::this_thread::get_id()) << "autograd did not use a thread of its own";
  const auto seen = probe.seen(kWork);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].thread, thread);
  EXPECT_THAT(seen[0].stages, ElementsAre(7)) << "once, whatever operators lie in one another";
  // The gradients' own work, too, wherever it ran.
  const auto products = probe.seen("aten::mul");
  std::set<std::thread::id> threads;
  for (const Probe::Seen& product : products) {
    threads.insert(product.thread);
    EXPECT_THAT(product.stages, ElementsAre(7));
  }
  EXPECT_GT(threads.size(), 1U);
  EXPECT_TRUE(sink.all_popped());
}

TEST(TagScope, AutogradsThreadsForgetItAfterwards) {
  FakeSink sink;
  { const TagScope scope(&sink, stage(7), EventKind::backward); }
  Probe probe(sink);
  const int pushes = sink.pushes;
  nested_backward(70, [] { work(); });
  EXPECT_THAT(probe.seen(kWork).at(0).stages, IsEmpty());
  EXPECT_EQ(sink.pushes, pushes);
}

TEST(TagScope, WhereAutogradHasOneThreadOperatorsCostNothing) {
  FakeSink sink;
  const c10::AutogradState before = c10::AutogradState::get_tls_state();
  c10::AutogradState one_thread = before;
  one_thread.set_multithreading_enabled(false);
  c10::AutogradState::set_tls_state(one_thread);
  {
    const TagScope scope(&sink, stage(3), EventKind::backward);
    EXPECT_FALSE(at::hasThreadLocalCallbacks());
    nested_backward(1, [&] { EXPECT_THAT(sink.stages(), ElementsAre(3)); });
  }
  c10::AutogradState::set_tls_state(before);
  EXPECT_TRUE(sink.all_popped());
}

TEST(TagScope, IsCarriedToOtherThreads) {
  FakeSink sink;
  CarriedTag carried;
  {
    const TagScope scope(&sink, stage(5), EventKind::forward);
    carried = current_tag();
  }
  std::thread([&] {
    const TagScope scope(carried);
    EXPECT_THAT(sink.stages(), ElementsAre(5));
  }).join();
  const TagScope none{CarriedTag{}};
  EXPECT_THAT(sink.stages(), IsEmpty());
  EXPECT_TRUE(sink.all_popped());
}

TEST(TagScope, StateOfAThreadIsThatOfItsWork) {
  FakeSink sink;
  Probe probe(sink);
  std::optional<at::ThreadLocalState> state;
  const TagScope scope(&sink, stage(4), EventKind::backward);
  state.emplace();
  const TagScope inner(&sink, stage(6), EventKind::backward);
  std::thread([&] {
    {
      const at::ThreadLocalStateGuard guard(*state);
      work();
    }
    work();
  }).join();
  const auto seen = probe.seen(kWork);
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_THAT(seen[0].stages, ElementsAre(4));
  EXPECT_THAT(seen[1].stages, IsEmpty());
}

}  // namespace
}  // namespace mptune::testing

#include "planner/schedule/messages.h"

#include <algorithm>
#include <utility>

#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

using Kind = MessageStep::Kind;

bool is_backward(const Action& action) {
  return action.kind == ActionKind::backward || action.kind == ActionKind::backward_input;
}

// What each action of a plan sends and reads, between devices.
class Ends {
 public:
  Ends(const Plan& plan, const Messages& messages) : plan_(plan), messages_(messages) {}

  [[nodiscard]] std::vector<int> sent_by(const Action& action) const {
    if (action.kind == ActionKind::forward) return of(action, &MessageFlow::front, false);
    return is_backward(action) ? of(action, &MessageFlow::back, true) : std::vector<int>{};
  }
  [[nodiscard]] std::vector<int> read_by(const Action& action) const {
    if (action.kind == ActionKind::forward) return of(action, &MessageFlow::back, false);
    return is_backward(action) ? of(action, &MessageFlow::front, true) : std::vector<int>{};
  }
  [[nodiscard]] int sender(int message) const { return device(message, messages_.is_gradient(message)); }
  [[nodiscard]] int receiver(int message) const { return device(message, !messages_.is_gradient(message)); }

 private:
  [[nodiscard]] std::vector<int> of(const Action& action, int MessageFlow::*end, bool gradient) const {
    std::vector<int> found;
    for (std::size_t f = 0; f < messages_.flows.size(); ++f) {
      const MessageFlow& flow = messages_.flows[f];
      if (flow.*end != action.stage || (gradient && !flow.needs_gradient)) continue;
      const int message = messages_.id(static_cast<int>(f), gradient, action.microbatch);
      if (sender(message) != receiver(message)) found.push_back(message);
    }
    return found;
  }
  [[nodiscard]] int device(int message, bool back) const {
    const MessageFlow& flow = messages_.flows[as_index(messages_.flow_of(message))];
    return device_of(plan_.stages[as_index(back ? flow.back : flow.front)], messages_.microbatch_of(message));
  }

  const Plan& plan_;
  const Messages& messages_;
};

void post(std::vector<MessageStep>& steps, const std::vector<int>& messages) {
  if (!messages.empty()) steps.push_back({Kind::post, -1, messages});
}

void wait(std::vector<MessageStep>& steps, const std::vector<int>& messages) {
  if (!messages.empty()) steps.push_back({Kind::wait, -1, messages});
}

void complete(std::vector<MessageStep>& steps, const std::vector<int>& messages) {
  post(steps, messages);
  wait(steps, messages);
}

void complete_each(std::vector<MessageStep>& steps, const std::vector<int>& messages) {
  for (const int message : messages) complete(steps, {message});
}

std::vector<int> joined(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// What a stage that is alone on its device does: it exchanges messages between an action and the next one.
class PairedSteps {
 public:
  PairedSteps(const Plan& plan, const Ends& ends, Runtime runtime) : plan_(plan), ends_(ends), runtime_(runtime) {}

  std::vector<MessageStep> of(const std::vector<Action>& row) {
    on_the_way_.clear();
    std::vector<int> sent;  // by the action before
    int in_flight = 0;      // micro-batches
    for (std::size_t k = 0; k < row.size(); ++k) {
      const bool turns = k > 0 && is_backward(row[k]) != is_backward(row[k - 1]);
      const std::vector<int> read = ends_.read_by(row[k]);
      if (runtime_ == Runtime::deepspeed)
        exchange_deepspeed(sent, read, turns && is_backward(row[k]) && in_flight == plan_.num_stages() - row[k].stage);
      else if (runtime_ == Runtime::megatron)
        exchange_megatron(sent, read, turns);
      else
        exchange_torch(sent, read, turns);
      steps_.push_back({Kind::compute, static_cast<int>(k), {}});
      sent = ends_.sent_by(row[k]);
      in_flight += is_backward(row[k]) ? -1 : 1;
    }
    complete(steps_, sent);
    return std::exchange(steps_, {});
  }

 private:
  // Its loop counts ticks, forwards and backwards in turns. Where it has no tick between a forward and the backward, as many micro-batches
  // are in flight as stages are left: it then receives first.
  void exchange_deepspeed(const std::vector<int>& sent, const std::vector<int>& read, bool receives_first) {
    complete_each(steps_, receives_first ? read : sent);
    complete_each(steps_, receives_first ? sent : read);
  }

  void exchange_megatron(const std::vector<int>& sent, const std::vector<int>& read, bool turns) {
    if (turns) {
      complete(steps_, joined(sent, read));
    } else {
      complete(steps_, sent);
      complete(steps_, read);
    }
  }

  void exchange_torch(const std::vector<int>& sent, const std::vector<int>& read, bool turns) {
    const bool one_send = plan_.schedule == "1f1b";  // the others wait for all sends at the turn
    if (turns && one_send) {
      wait(steps_, std::exchange(on_the_way_, {}));
      complete(steps_, joined(sent, read));
      return;
    }
    if (one_send) wait(steps_, std::exchange(on_the_way_, {}));
    post(steps_, sent);
    on_the_way_ = joined(std::move(on_the_way_), sent);
    if (turns) wait(steps_, std::exchange(on_the_way_, {}));
    complete(steps_, read);
  }

  const Plan& plan_;
  const Ends& ends_;
  Runtime runtime_;
  std::vector<MessageStep> steps_;
  std::vector<int> on_the_way_;  // sends that nothing has waited for
};

// Each device posts what an action reads one action ahead.
std::vector<MessageStep> overlapped_steps(const std::vector<Action>& row, const Ends& ends) {
  std::vector<MessageStep> steps;
  if (!row.empty()) post(steps, ends.read_by(row.front()));
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (k + 1 < row.size()) post(steps, ends.read_by(row[k + 1]));
    wait(steps, ends.read_by(row[k]));
    steps.push_back({Kind::compute, static_cast<int>(k), {}});
    post(steps, ends.sent_by(row[k]));
  }
  return steps;
}

// Devices take turns, each with one action whose messages are all posted; that action's own messages are then posted at both ends.
std::vector<std::vector<MessageStep>> torch_steps(const Plan& plan, const Messages& messages, const Ends& ends) {
  std::vector<std::vector<MessageStep>> steps(plan.devices.size());
  std::vector<bool> posted(as_index(messages.count()), false);
  std::vector<std::size_t> next(plan.devices.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t d = 0; d < steps.size(); ++d) {
      if (next[d] == plan.actions[d].size()) continue;
      const Action& action = plan.actions[d][next[d]];
      const std::vector<int> read = ends.read_by(action);
      if (!std::ranges::all_of(read, [&](int message) { return posted[as_index(message)]; })) continue;
      wait(steps[d], read);
      steps[d].push_back({Kind::compute, static_cast<int>(next[d]++), {}});
      for (const int message : ends.sent_by(action)) {
        post(steps[d], {message});
        post(steps[as_index(ends.receiver(message))], {message});
        posted[as_index(message)] = true;
      }
      progress = true;
    }
  }
  return steps;
}

bool one_whole_stage_each(const Plan& plan) {
  for (const std::vector<Action>& row : plan.actions)
    for (const Action& action : row)
      if (action.stage != row.front().stage || (action.kind != ActionKind::forward && action.kind != ActionKind::backward)) return false;
  return true;
}

bool is_one_of(const std::string& schedule, std::initializer_list<const char*> names) {
  return std::ranges::find(names, schedule) != names.end();
}

// Takes the devices through their steps in turns.
class Walk {
 public:
  Walk(const Messages& messages, MessageVisitor& visitor)
      : messages_(messages),
        visitor_(visitor),
        done_(messages.devices.size(), 0),
        posts_(messages.devices.size()),
        ends_(as_index(messages.count())),
        moved_(as_index(messages.count()), false) {
    for (bool progress = true; progress;) {
      progress = false;
      for (int device = 0; device < static_cast<int>(done_.size()); ++device)
        while (advance(device)) progress = true;
    }
  }
  [[nodiscard]] std::vector<std::size_t> steps_done() const { return done_; }

 private:
  struct Posts {
    std::vector<const std::vector<int>*> all;
    std::size_t front = 0;  // the first of them with a message that has not moved
  };

  bool advance(int device) {
    const std::vector<MessageStep>& steps = messages_.devices[as_index(device)];
    std::size_t& at = done_[as_index(device)];
    if (at == steps.size()) return false;
    const MessageStep& step = steps[at];
    if (step.kind == Kind::wait && !all_moved(step.messages)) return false;
    ++at;
    if (step.kind == Kind::compute) visitor_.compute(device, step.action);
    if (step.kind == Kind::post) post(device, step.messages);
    if (step.kind == Kind::wait)
      for (const int message : step.messages) visitor_.wait(device, message);
    return true;
  }

  void post(int device, const std::vector<int>& posted) {
    for (const int message : posted) {
      visitor_.post(device, message);
      ends_[as_index(message)].push_back(device);
    }
    posts_[as_index(device)].all.push_back(&posted);
    if (messages_.in_order) return move_front(device);
    for (const int message : posted)
      if (ends_[as_index(message)].size() == 2) move(message, {});
  }

  // Moves what is first in the queues of both of its ends. A queue whose first post has moved may free those of other devices.
  void move_front(int device) {
    for (std::vector<int> open = {device}; !open.empty();) {
      const int next = open.back();
      open.pop_back();
      Posts& posts = posts_[as_index(next)];
      while (posts.front < posts.all.size()) {
        const std::vector<int>& first = *posts.all[posts.front];
        for (const int message : first)
          if (!moved_[as_index(message)] && is_first_at_both_ends(message)) move(message, before(message));
        if (!all_moved(first)) break;
        ++posts.front;
        for (const int message : first)
          for (const int end : ends_[as_index(message)])
            if (end != next) open.push_back(end);
      }
    }
  }

  [[nodiscard]] bool is_first_at_both_ends(int message) const {
    const std::vector<int>& ends = ends_[as_index(message)];
    return ends.size() == 2 && std::ranges::all_of(ends, [&](int end) {
             const Posts& posts = posts_[as_index(end)];
             return posts.front < posts.all.size() && std::ranges::find(*posts.all[posts.front], message) != posts.all[posts.front]->end();
           });
  }

  // The posts before the message's in the queues of its ends.
  [[nodiscard]] std::vector<int> before(int message) const {
    std::vector<int> all;
    for (const int end : ends_[as_index(message)]) {
      const Posts& posts = posts_[as_index(end)];
      if (posts.front > 0) all = joined(std::move(all), *posts.all[posts.front - 1]);
    }
    return all;
  }

  void move(int message, const std::vector<int>& after) {
    moved_[as_index(message)] = true;
    visitor_.move(message, after);
  }

  [[nodiscard]] bool all_moved(const std::vector<int>& messages) const {
    return std::ranges::all_of(messages, [&](int message) { return moved_[as_index(message)]; });
  }

  const Messages& messages_;
  MessageVisitor& visitor_;
  std::vector<std::size_t> done_;
  std::vector<Posts> posts_;
  std::vector<std::vector<int>> ends_;  // of each message: the devices that have posted it
  std::vector<bool> moved_;
};

bool posts(const std::vector<MessageStep>& steps, int message) {
  return std::ranges::any_of(steps, [&](const MessageStep& step) {
    return step.kind == Kind::post && std::ranges::find(step.messages, message) != step.messages.end();
  });
}

struct Moved : MessageVisitor {
  explicit Moved(const Messages& messages) : moved(as_index(messages.count()), false) {}
  void compute(int, int) override {}
  void post(int, int) override {}
  void move(int message, const std::vector<int>&) override { moved[as_index(message)] = true; }
  void wait(int, int) override {}
  std::vector<bool> moved;
};

std::string text_of(const Messages& messages, int message) {
  const MessageFlow& flow = messages.flows[as_index(messages.flow_of(message))];
  const bool gradient = messages.is_gradient(message);
  return std::string("the ") + (gradient ? "gradient" : "output") + " of micro-batch " + std::to_string(messages.microbatch_of(message)) +
         " of stage " + std::to_string(gradient ? flow.back : flow.front);
}

}  // namespace

Messages messages_of(const Plan& plan, std::vector<MessageFlow> flows, Runtime runtime) {
  Messages messages;
  messages.runtime = runtime;
  messages.microbatches = plan.num_microbatches();
  messages.flows = std::move(flows);
  const Ends ends(plan, messages);
  const bool paired = one_whole_stage_each(plan);
  const bool named = is_one_of(plan.schedule, {"naive", "gpipe", "1f1b"});
  // NCCL gives the batched messages of a process group one stream; Gloo's messages with several peers pass each other.
  messages.in_order = runtime == Runtime::torch && !plan.devices.front().starts_with("cpu:");
  if (runtime == Runtime::torch && !(paired && named)) {
    messages.devices = torch_steps(plan, messages, ends);
    return messages;
  }
  PairedSteps steps(plan, ends, runtime);
  for (const std::vector<Action>& row : plan.actions)
    messages.devices.push_back(runtime == Runtime::megatron && !paired ? overlapped_steps(row, ends) : steps.of(row));
  return messages;
}

std::vector<std::size_t> walk(const Messages& messages, MessageVisitor& visitor) {
  return Walk(messages, visitor).steps_done();
}

std::string deadlock_of(const Plan& plan, const Messages& messages) {
  Moved arrivals(messages);
  const std::vector<std::size_t> done = walk(messages, arrivals);
  const Ends ends(plan, messages);
  // Returns the message that holds a device up: the first in its queue, or one that its next step waits for.
  const auto awaited = [&](int device) {
    const std::vector<MessageStep>& steps = messages.devices[as_index(device)];
    const auto has_moved = [&](int message) { return arrivals.moved[as_index(message)]; };
    for (std::size_t k = 0; k <= done[as_index(device)] && k < steps.size(); ++k) {
      if (k < done[as_index(device)] && !(messages.in_order && steps[k].kind == Kind::post)) continue;
      const auto missing = std::ranges::find_if_not(steps[k].messages, has_moved);
      if (missing != steps[k].messages.end()) return *missing;
    }
    return -1;
  };
  const auto stuck = std::ranges::find_if(
      done, [&](const std::size_t& steps) { return steps < messages.devices[static_cast<std::size_t>(&steps - done.data())].size(); });
  if (stuck == done.end()) return "";
  // Going on to the device that is waited for ends in the circle, or at a device that has ended without the message.
  int device = static_cast<int>(stuck - done.begin());
  const auto other = [&](int of) {
    const int message = awaited(of);
    return ends.sender(message) == of ? ends.receiver(message) : ends.sender(message);
  };
  const auto sends = [&](int of) { return ends.sender(awaited(of)) == of; };
  const auto waits = [&](int of) {
    return plan.devices[as_index(of)] + " waits to " + (sends(of) ? "send " : "receive ") + text_of(messages, awaited(of));
  };
  for (std::size_t k = 0; k < done.size() && awaited(other(device)) >= 0; ++k) {
    if (!posts(messages.devices[as_index(other(device))], awaited(device))) break;
    device = other(device);
  }
  const int last = other(device);
  if (awaited(last) >= 0 && posts(messages.devices[as_index(last)], awaited(device))) return waits(device) + ", while " + waits(last);
  return waits(device) + ", which " + plan.devices[as_index(last)] + (sends(device) ? " never receives" : " never sends");
}

}  // namespace mptune::planner

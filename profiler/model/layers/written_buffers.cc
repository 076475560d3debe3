#include "profiler/model/layers/written_buffers.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "profiler/base/error.h"

namespace mptune::profiler {
namespace {

std::int64_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
}

void set_value(at::Tensor buffer, const at::Tensor& value) {
  const at::NoGradGuard no_gradients;
  buffer.copy_(value);
}

}  // namespace

Tensors WrittenBuffers::run(const std::vector<NamedTensor>& buffers, const RunContext& context, const std::function<Tensors()>& forward) {
  const bool none_written = !written_.empty() && std::ranges::find(written_, true) == written_.end();
  if (buffers.empty() || ((context.recomputing || context.evaluating) && none_written)) return forward();
  begin(buffers);
  if (!context.recomputing && !context.evaluating) {
    Tensors outputs = forward();
    learn_writes(buffers, context);
    return outputs;
  }
  struct Return {
    std::vector<Before> now;
    ~Return() {
      for (const Before& one : now)
        if (one.value.defined()) set_value(one.buffer, one.value);
    }
  };
  const Return to_now{before_};
  if (context.recomputing) take_found(context.microbatch);
  Tensors outputs = forward();
  before_.clear();
  return outputs;
}

void WrittenBuffers::restart() {
  for (Before& before : before_) {
    if (!before.value.defined() || version_of(before.buffer) == before.version) continue;
    set_value(before.buffer, before.value);
    before.version = version_of(before.buffer);
  }
}

void WrittenBuffers::begin(const std::vector<NamedTensor>& buffers) {
  before_.clear();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const at::Tensor& buffer = buffers[i].tensor;
    const bool may_be_written = written_.empty() || written_[i];
    before_.push_back({buffer, may_be_written ? buffer.detach().clone() : at::Tensor(), version_of(buffer)});
  }
}

void WrittenBuffers::take_found(int microbatch) {
  const auto found = found_.extract(microbatch);
  if (!found) return;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (!found.mapped()[i].defined()) continue;
    before_[i].value = found.mapped()[i];
    set_value(before_[i].buffer, before_[i].value);
    before_[i].version = version_of(before_[i].buffer);
  }
}

void WrittenBuffers::learn_writes(const std::vector<NamedTensor>& buffers, const RunContext& context) {
  written_.resize(buffers.size(), false);
  Tensors values;
  std::string missing;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const bool now = version_of(before_[i].buffer) != before_[i].version;
    if (now && !before_[i].value.defined()) missing = buffers[i].name;
    if (now && name_.empty()) name_ = buffers[i].name;
    written_[i] = written_[i] || now;
    values.push_back(written_[i] ? std::move(before_[i].value) : at::Tensor());
  }
  before_.clear();
  found_.erase(context.microbatch);
  if (!context.recomputed || name_.empty()) return;
  if (!missing.empty())
    throw Error("a forward writes this buffer which earlier ones left alone, and can't be recomputed from its earlier values", missing,
                "take the step again: from now on they are kept");
  found_[context.microbatch] = std::move(values);
}

}  // namespace mptune::profiler

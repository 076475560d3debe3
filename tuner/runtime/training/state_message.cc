#include "tuner/runtime/training/state_message.h"

#include <ATen/ATen.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "profiler/base/error.h"
#include "profiler/base/index.h"

namespace mptune::tuner {
namespace {

using nlohmann::json;

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_in(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), as_index(bytes.numel())};
}

}  // namespace

Tensors state_tensors(const TrainingState& state) {
  json about{{"steps", state.steps}, {"parameters", json::array()}, {"buffers", json::array()}, {"optimizer", json::array()}};
  Tensors tensors{at::Tensor()};
  for (const NamedTensor& named : state.parameters) about["parameters"].push_back(named.name), tensors.push_back(named.tensor);
  for (const NamedTensor& named : state.buffers) about["buffers"].push_back(named.name), tensors.push_back(named.tensor);
  for (const auto& [parameter, entries] : state.optimizer)
    for (const auto& [entry, tensor] : entries) about["optimizer"].push_back({parameter, entry}), tensors.push_back(tensor);
  if (state.loss_scale) about["loss_scale"] = {state.loss_scale->scale, state.loss_scale->finite_steps};
  tensors.front() = bytes_of(about.dump());
  return tensors;
}

TrainingState state_from(const Tensors& tensors) {
  try {
    const json about = json::parse(text_in(tensors.at(0)));
    TrainingState state;
    state.steps = about.at("steps");
    std::size_t next = 1;
    for (const json& name : about.at("parameters")) state.parameters.push_back({name, tensors.at(next++)});
    for (const json& name : about.at("buffers")) state.buffers.push_back({name, tensors.at(next++)});
    for (const json& entry : about.at("optimizer")) state.optimizer[entry.at(0)][entry.at(1)] = tensors.at(next++);
    if (const auto scale = about.find("loss_scale"); scale != about.end()) state.loss_scale = LossScale{scale->at(0), scale->at(1)};
    return state;
  } catch (const std::exception& error) {
    throw Error(std::string("the state of another rank is damaged: ") + error.what(), "ranks",
                "make sure that all ranks run the same build of mptune", ExitCode::internal);
  }
}

}  // namespace mptune::tuner

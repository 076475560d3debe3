#include "reports/values/unlike.h"

#include <algorithm>

#include "profiler/base/text.h"

namespace mptune::reports {
namespace {

using What = Unlike::What;

/// Clocks that differ by less count as the same: on some virtual machines the shown clock varies.
constexpr double kSameClock = 1.05;

std::string names_of(const std::vector<TraceDevice>& devices) {
  std::vector<std::string> names;
  for (const TraceDevice& device : devices) names.push_back(device.name);
  return join(names, ", ");
}

void add(std::vector<Unlike>& things, What what, const std::string& a, const std::string& b) {
  if (!a.empty() && !b.empty() && a != b) things.push_back({what, a, b});
}

std::string number(int value) {
  return value > 0 ? std::to_string(value) : "";
}

/// Adds devices of one name that are of different kinds: "cuda:0 (NVIDIA A100)".
void add_kinds(std::vector<Unlike>& things, const std::vector<TraceDevice>& a, const std::vector<TraceDevice>& b) {
  for (const TraceDevice& device : a) {
    const auto other = std::ranges::find(b, device.name, &TraceDevice::name);
    if (other == b.end() || device.description.empty() || other->description.empty() || device.description == other->description) continue;
    things.push_back({What::device, device.name + " (" + device.description + ")", other->name + " (" + other->description + ")"});
  }
}

void add_machine(std::vector<Unlike>& things, const ComparedWork& a, const ComparedWork& b) {
  add(things, What::libtorch, a.fingerprint.libtorch, b.fingerprint.libtorch);
  // Only a known LibTorch says that there is no CUDA.
  const auto cuda = [](const ComparedWork& work) {
    return work.fingerprint.libtorch.empty() || !work.fingerprint.cuda.empty() ? work.fingerprint.cuda : std::string("none");
  };
  add(things, What::cuda, cuda(a), cuda(b));
  add(things, What::cpu, a.machine.cpu, b.machine.cpu);
  add(things, What::cores, number(a.machine.cores), number(b.machine.cores));
  const auto [low, high] = std::minmax(a.machine.clock_mhz, b.machine.clock_mhz);
  if (high > kSameClock * low) {
    const auto clock = [](const Machine& machine) { return machine.clock_mhz > 0 ? std::to_string(machine.clock_mhz) + " MHz" : ""; };
    add(things, What::clock, clock(a.machine), clock(b.machine));
  }
}

}  // namespace

std::vector<Unlike> unlike_things(const ComparedWork& a, const ComparedWork& b) {
  std::vector<Unlike> things;
  add(things, What::model, a.model, b.model);
  const std::string &model_a = a.fingerprint.model, &model_b = b.fingerprint.model;
  if (things.empty() && !model_a.empty() && !model_b.empty() && model_a != model_b) things.push_back({What::model_content, "", ""});
  add(things, What::input, a.fingerprint.input, b.fingerprint.input);
  add(things, What::batch, number(a.batch), number(b.batch));
  add(things, What::devices, names_of(a.devices), names_of(b.devices));
  add_kinds(things, a.devices, b.devices);
  add_machine(things, a, b);
  return things;
}

bool is_of_machine(What what) {
  switch (what) {
    case What::device:
    case What::libtorch:
    case What::cuda:
    case What::cpu:
    case What::cores:
    case What::clock:
      return true;
    default:
      return false;
  }
}

const char* name_of(What what) {
  switch (what) {
    case What::model:
      return "model";
    case What::model_content:
      return "model content";
    case What::input:
      return "input";
    case What::batch:
      return "batch";
    case What::devices:
      return "devices";
    case What::device:
      return "device";
    case What::libtorch:
      return "LibTorch";
    case What::cuda:
      return "CUDA";
    case What::cpu:
      return "CPU";
    case What::cores:
      return "cores";
    case What::clock:
      return "highest clock of a core";
  }
  return "";
}

}  // namespace mptune::reports

#include "reports/cli/options/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/loss_choice.h"
#include "profiler/base/nearest_word.h"
#include "profiler/base/text.h"
#include "profiler/trace/values/builtin_list.h"
#include "reports/cli/program/option_values.h"

namespace mptune::reports {
namespace {

std::string range_text(double least, double most) {
  std::ostringstream text;
  text << "use " << least << " to " << most;
  return text.str();
}

Precision parse_precision(const std::string& text) {
  const auto precision = precision_of(text.empty() ? name_of(Precision::float32) : text);
  if (!precision)
    throw Error("'" + text + "' is not a precision", "--precision",
                did_you_mean(text, {kPrecisionNames.begin(), kPrecisionNames.end()}, "use float32, bf16 or fp16"));
  return *precision;
}

std::vector<std::string> loss_values() {
  std::vector<std::string> values(kLossNames.begin(), kLossNames.end());
  values.emplace_back("model");
  return values;
}

Reduce parse_reduce(const std::string& text) {
  const auto name = std::ranges::find(kReduceNames, text.empty() ? kReduceNames[0] : text);
  if (name == kReduceNames.end())
    throw Error("'" + text + "' is not a way to reduce", "--reduce",
                did_you_mean(text, {kReduceNames.begin(), kReduceNames.end()}, "use ordered or all-reduce"));
  return static_cast<Reduce>(name - kReduceNames.begin());
}

}  // namespace

std::int64_t whole_machine_cap(const std::vector<std::int64_t>& caps) {
  const bool capped = !caps.empty() && std::ranges::all_of(caps, [](std::int64_t bytes) { return bytes > 0; });
  return capped ? *std::ranges::max_element(caps) : 0;
}

void add_device_options(CLI::App& command, DeviceOptions& options, bool divides) {
  options.divides = divides;
  const std::string pools = divides ? "cpu:0-15/auto and cuda:0/auto: how these are divided is searched, too; " : "";
  CLI::Option* devices =
      command
          .add_option("--devices", options.devices,
                      "cpu:0, cpu:0-3, cuda:0, cuda:0/1of2, sleep:4; " + pools +
                          "a comma-separated list, or auto; default: auto, which is all GPUs, else one device per core, at most 8")
          ->type_name("LIST")
          ->group(kDeviceGroup);
  offer_values(*devices, {"auto"});
  command.add_option("--link", options.link, "throttle copies between CPU devices: 12GB/s,10us; default: not throttled")
      ->type_name("BW[,LATENCY]")
      ->group(kDeviceGroup);
  command.add_option("--memory", options.memory, "cap per device: 2GiB, or cpu:0=1GiB,cpu:1=2GiB; default: what the device has")
      ->type_name("SIZE")
      ->group(kDeviceGroup);
}

void add_model_options(CLI::App& command, ModelOptions& options) {
  CLI::Option* model = command.add_option(
      "MODEL", options.model,
      "a built-in model, such as resnet50 or transformer:d=256,layers=8, or a file: a program of torch.export (net.pt2, "
      "mptune_export.py), a plug-in (./libnet.so), or TorchScript whose nn.Sequential's children are the layers (net.pt, or "
      "net.pt:container=PATH of a Sequential or ModuleList inside)");
  model->required();
  offer_values(*model, model_values());
  command.add_option("--batch", options.batch, "samples per step (global batch); default: the model's")->type_name("N")->group(kModelGroup);
  command
      .add_option("--input", options.input,
                  "shape of one sample, such as 3x64x64; default: the model's; TorchScript has none, so give this or --data")
      ->type_name("SHAPE[:DTYPE]")
      ->group(kModelGroup);
}

void add_step_options(CLI::App& command, StepOptions& options) {
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    return command.add_option(name, value, help)->type_name(type)->group(kStepGroup);
  };
  offer_values(*add("--optimizer", options.optimizer, "NAME",
                    "sgd, adam or adamw; sgd:momentum=0.9:weight_decay=1e-4 and adamw:beta2=0.95:decay=matrices say more; default: sgd"),
               optimizer_names());
  add("--lr", options.learning_rate, "X", "learning rate; default: 0.01 for sgd, 0.001 for adam and adamw");
  offer_values(
      *add("--loss", options.loss, "NAME",
           "cross_entropy, mse, mean_square or model; cross_entropy:ignore_index=0:weight=1,2.5 says which targets count and how much, "
           "outputs=1,0.3 of which of the model's outputs it is the sum; "
           "default: the model's"),
      loss_values());
  offer_values(*add("--precision", options.precision, "TYPE",
                    "float32, or bf16 or fp16: layers and loss run under autocast, parameters and gradients stay in float32, and the loss "
                    "is scaled for fp16; default: float32"),
               {kPrecisionNames.begin(), kPrecisionNames.end()});
  add("--seed", options.seed, "N", "fixes weights and data; default: 0");
  offer_values(*add("--data", options.data, "PATH",
                    "samples saved by torch.save or as safetensors: a dict with input and target, or a key for each input by its name; "
                    "or a folder with input.npy and target.npy; default: made from the seed"),
               {kFileValue});
}

void add_output_options(CLI::App& command, OutputOptions& options, const std::string& help) {
  offer_values(*command.add_option("-o,--output", options.path, help)->type_name("PATH")->group(kOutputGroup), {kFileValue});
  command.add_flag("--force", options.force, "replace a file that mptune did not write")->group(kOutputGroup);
}

std::vector<std::string> model_values() {
  std::vector<std::string> values = profiler::builtin_names();
  values.emplace_back(kFileValue);
  return values;
}

std::int64_t parse_whole(const std::string& text, const std::string& option, std::int64_t least, std::int64_t most, std::int64_t absent) {
  if (text.empty()) return absent;
  const std::optional<std::int64_t> value = integer(text);
  if (!value || *value < least || *value > most)
    throw Error("'" + text + "' is not a whole number in range", option, "use " + std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

int parse_count(const std::string& text, const std::string& option, std::int64_t most) {
  return static_cast<int>(parse_whole(text, option, 1, most, 0));
}

double parse_number(const std::string& text, const std::string& option, double least, double most, double absent) {
  if (text.empty()) return absent;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value) || value < least || value > most)
    throw Error("'" + text + "' is not a number in range", option, range_text(least, most));
  return value;
}

std::vector<DevicePool> parse_pools(const std::vector<std::string>& names) {
  std::vector<DevicePool> pools;
  for (const std::string& name : names) pools.push_back(parse_pool(name));
  return pools;
}

std::vector<std::int64_t> memory_caps(const std::string& text, const std::vector<DeviceSpec>& devices,
                                      const std::vector<DevicePool>& pools) {
  if (pools.empty() || text.find('=') == std::string::npos) return parse_memory(text, devices);
  const auto pooled = [&](const DeviceSpec& device) {
    return std::ranges::any_of(pools, [&](const DevicePool& pool) { return in_pool(device, pool); });
  };
  std::vector<DeviceSpec> named;
  std::ranges::copy_if(devices, std::back_inserter(named), [&](const DeviceSpec& device) { return !pooled(device); });
  const std::vector<std::int64_t> given = parse_memory(text, named);
  std::vector<std::int64_t> caps;
  for (const DeviceSpec& device : devices)
    caps.push_back(pooled(device) ? 0 : given[as_index(std::ranges::find(named, device) - named.begin())]);
  return caps;
}

std::vector<Division> divisions_with_caps(const std::string& memory, const std::vector<DeviceSpec>& devices,
                                          const std::vector<DevicePool>& pools) {
  std::vector<Division> divisions;
  if (pools.empty()) return divisions;
  std::vector<std::string> others;
  for (const DeviceSpec& device : devices)
    if (std::ranges::none_of(pools, [&](const DevicePool& pool) { return in_pool(device, pool); })) others.push_back(device.name);
  for (std::vector<std::string>& names : divided(pools, others)) {
    std::vector<DeviceSpec> specs;
    for (const std::string& name : names) specs.push_back(parse_device(name));
    divisions.push_back({std::move(names), memory_caps(memory, specs, pools)});
  }
  return divisions;
}

TrainingSpec training_spec(const ModelOptions& model, const DeviceOptions& devices, const StepOptions& step) {
  return with_absolute_files({.model = model.model,
                              .input = model.input,
                              .batch = model.batch,
                              .devices = devices.devices == "auto" ? "" : devices.devices,
                              .memory = devices.memory,
                              .link = devices.link,
                              .reduce = devices.reduce == kReduceNames[0] ? "" : devices.reduce,
                              .loss = step.loss,
                              .optimizer = step.optimizer == "sgd" ? "" : step.optimizer,
                              .learning_rate = step.learning_rate,
                              .precision = step.precision == name_of(Precision::float32) ? "" : step.precision,
                              .seed = step.seed,
                              .data = step.data});
}

tuner::TrainingSetup make_setup(const ModelOptions& model, const DeviceOptions& devices, const StepOptions& step) {
  const DeviceChoice choice = devices.divides ? parse_device_choice(devices.devices) : DeviceChoice{parse_devices(devices.devices), {}};
  const std::vector<DeviceSpec>& specs = choice.devices;
  const auto of_rank = std::ranges::find_if(specs, [](const DeviceSpec& device) { return names_rank(device.name); });
  if (of_rank != specs.end() && !devices.ranks)
    throw Error("only run, profile and tune take devices of several ranks", of_rank->name,
                "name devices of this process, such as " + without_rank(of_rank->name));
  const std::vector<std::int64_t> caps = memory_caps(devices.memory, specs, choice.pools);
  tuner::TrainingSetup setup;
  for (const DevicePool& pool : choice.pools) setup.pools.push_back(pool.name());
  for (const Division& division : divisions_with_caps(devices.memory, specs, choice.pools))
    for (std::size_t d = 0; d < division.devices.size(); ++d)
      if (division.memory_bytes[d] > 0) setup.memory_bytes[division.devices[d]] = division.memory_bytes[d];
  setup.model = model.model;
  setup.input = model.input;
  setup.batch = parse_count(model.batch, "--batch", kMostBatch);
  setup.link = parse_link(devices.link);
  setup.reduce = parse_reduce(devices.reduce);
  setup.whole_machine = whole_machine_device(specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    setup.devices.push_back(specs[i].name);
    if (caps[i] > 0) setup.memory_bytes[specs[i].name] = caps[i];
  }
  if (const std::int64_t cap = whole_machine_cap(caps); !setup.whole_machine.empty() && cap > 0)
    setup.memory_bytes[setup.whole_machine] = cap;
  setup.optimizer = parse_optimizer(step.optimizer);
  if (!step.loss.empty() && step.loss != "model") setup.loss = text_of(parse_loss(step.loss));
  setup.precision = parse_precision(step.precision);
  setup.learning_rate = parse_number(step.learning_rate, "--lr", 1e-12, 1e6, 0);
  setup.seed = static_cast<std::uint64_t>(parse_whole(step.seed, "--seed", 0, std::numeric_limits<std::int64_t>::max(), 0));
  setup.data = step.data;
  std::error_code ignored;
  if (!step.data.empty() && !std::filesystem::exists(step.data, ignored))
    throw Error("the file does not exist", step.data, "give --data a file saved by torch.save, or a folder of .npy files");
  return setup;
}

void take_precision(const Plan& plan, const StepOptions& step, const std::string& path, tuner::TrainingSetup& setup) {
  const Precision precision = plan.options.precision;
  if (!step.precision.empty() && setup.precision != precision)
    throw Error(std::string("the plan computes in ") + name_of(precision) + ", not in " + name_of(setup.precision), path,
                "leave --precision out, or make a plan in this precision");
  setup.precision = precision;
}

}  // namespace mptune::reports

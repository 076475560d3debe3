#include "planner/cost/variants.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "planner/plan/plan_error.h"
#include "planner/plan/threads.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/text.h"

namespace mptune::planner {
namespace {

// Returns the index of the class with the device's costs in exactly this variant.
std::optional<int> measured_class(const Profile& profile, const ProfileDevice& device, const ExecutionVariant& variant) {
  if (device.device_class < 0 || as_index(device.device_class) >= profile.classes.size()) return std::nullopt;
  const DeviceClass& named = profile.classes[as_index(device.device_class)];
  const int base = named.variant_of < 0 ? device.device_class : named.variant_of;
  for (std::size_t c = 0; c < profile.classes.size(); ++c) {
    const bool of_device = static_cast<int>(c) == base || profile.classes[c].variant_of == base;
    if (of_device && profile.classes[c].variant == variant) return static_cast<int>(c);
  }
  return std::nullopt;
}

std::optional<int> class_in(const Profile& profile, const ProfileDevice& device, const ExecutionVariant& variant) {
  if (const auto found = measured_class(profile, device, variant)) return found;
  return variant.replaces_slow_kernels ? measured_class(profile, device, {variant.memory_format, false, variant.threads}) : std::nullopt;
}

// Returns the options of `profile` that measure what is missing. Each option alone is measured in every case, so both are named only where
// both are new, or only their combination is.
std::string measuring_options(const Profile& profile, const ProfileDevice& device, const ExecutionVariant& variant) {
  const std::string threads = variant.threads > 0 ? " --threads " + std::to_string(variant.threads) : "";
  const std::string format = std::string(" --memory-format ") + name_of(variant.memory_format);
  const bool has_threads = variant.threads == 0 || measured_class(profile, device, {.threads = variant.threads}).has_value();
  const bool has_format = measured_class(profile, device, {.memory_format = variant.memory_format}).has_value();
  if (has_format && !has_threads) return threads;
  return (has_threads && !has_format ? "" : threads) + format;
}

Error no_costs(const Profile& profile, const ProfileDevice& device, const ExecutionVariant& variant) {
  const bool other_format = variant.memory_format != MemoryFormat::contiguous || variant.threads == 0;
  return {"the profile has no costs of " + device.name +
              (other_format ? std::string(" in memory format ") + name_of(variant.memory_format) : "") +
              (variant.threads > 0 ? " with " + counted(variant.threads, "thread") : ""),
          profile.model, "profile the model again with" + measuring_options(profile, device, variant)};
}

// Returns a variant for each device of the profile.
std::vector<ExecutionVariant> variants_of(const Profile& profile, const ExecutionVariant& variant) {
  std::vector<ExecutionVariant> variants;
  for (const ProfileDevice& device : profile.devices) variants.push_back(variant_on(device.name, variant));
  return variants;
}

std::vector<ExecutionVariant> variants_of(const Profile& profile, const Plan& plan) {
  std::vector<ExecutionVariant> variants;
  for (const ProfileDevice& device : profile.devices) {
    ExecutionVariant variant{plan.options.memory_format, plan.options.replace_slow_kernels};
    const auto used = std::ranges::find(plan.devices, device.name) - plan.devices.begin();
    if (used < std::ssize(plan.devices)) variant.threads = threads_of(plan, static_cast<int>(used));
    variants.push_back(variant_on(device.name, variant));
  }
  return variants;
}

bool has_all(const Profile& profile, const std::vector<ExecutionVariant>& variants) {
  for (std::size_t d = 0; d < profile.devices.size(); ++d)
    if (!class_in(profile, profile.devices[d], variants[d])) return false;
  return true;
}

Profile in_classes(Profile profile, const std::vector<ExecutionVariant>& variants) {
  for (std::size_t d = 0; d < profile.devices.size(); ++d) {
    const auto found = class_in(profile, profile.devices[d], variants[d]);
    if (!found) throw no_costs(profile, profile.devices[d], variants[d]);
    profile.devices[d].device_class = *found;
  }
  return profile;
}

}  // namespace

ExecutionVariant variant_on(const std::string& device, ExecutionVariant variant) {
  if (variant.threads >= default_threads(device)) variant.threads = 0;
  return variant;
}

ExecutionOptions options_in(const ExecutionVariant& variant, Precision precision, const std::vector<std::string>& devices) {
  return {.memory_format = variant.memory_format,
          .replace_slow_kernels = variant.replaces_slow_kernels,
          .precision = precision,
          .threads = threads_of_devices(devices, variant.threads)};
}

bool has_variant(const Profile& profile, const ExecutionVariant& variant) {
  return has_all(profile, variants_of(profile, variant));
}

bool has_costs_of(const Profile& profile, const Plan& plan) {
  return profile.precision == plan.options.precision && has_all(profile, variants_of(profile, plan));
}

Profile in_variant(Profile profile, const ExecutionVariant& variant) {
  const std::vector<ExecutionVariant> variants = variants_of(profile, variant);
  return in_classes(std::move(profile), variants);
}

Profile in_variant_of(Profile profile, const Plan& plan) {
  if (profile.precision != plan.options.precision)
    throw planner::PlanError(std::string("the profile was measured in ") + name_of(profile.precision) + ", the plan computes in " +
                                 name_of(plan.options.precision),
                             profile.model, std::string("profile the model again with --precision ") + name_of(plan.options.precision));
  const std::vector<ExecutionVariant> variants = variants_of(profile, plan);
  return in_classes(std::move(profile), variants);
}

}  // namespace mptune::planner

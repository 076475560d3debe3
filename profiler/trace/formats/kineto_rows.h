#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "profiler/trace/formats/chrome_events.h"

namespace mptune::profiler {

/// What a row of a Kineto trace says.
enum class KinetoRow { kernel, copy, memset, sync, launch, annotation, ignored };

/// The beginning of annotations of steps; the number of the step follows.
inline constexpr std::string_view kStepName = "ProfilerStep#";

/// Classifies a row by phase, category and name; knows the categories of 2021, which are capitalised and have no prefix. Python functions
/// of a trace with stacks are ignored, except for those that pipeline_range_of() knows.
[[nodiscard]] KinetoRow kineto_row(const ChromeEvent& event);

/// Returns the source and destination of a copy that runs on `device`; -1: the host.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> copy_ends(const ChromeEvent& event, std::int64_t device);
/// Returns the number of the stream that work ran on, by its args, else by its thread ("stream 7", 7); 0 if neither says it.
[[nodiscard]] std::int64_t stream_of(const ChromeEvent& event);
/// True for a copy that the driver made to move pages of unified memory.
[[nodiscard]] bool is_unified_copy(const ChromeEvent& event);

/// True for a call that launches a kernel, unless it failed or a graph was being captured.
[[nodiscard]] bool launches_kernels(std::string_view call);

/// Returns the row in words, for messages: "kernel 'gemm'", "call 'cudaLaunchKernel'".
[[nodiscard]] std::string what_of(const ChromeEvent& event);
/// Returns the row's times as its file has them: "ts 5000.125, dur -3.000 [us]".
[[nodiscard]] std::string times_of(const ChromeEvent& event);
[[nodiscard]] std::string kineto_times(Nanoseconds start, Nanoseconds duration);

}  // namespace mptune::profiler

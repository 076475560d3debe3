#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// How write_kineto numbers what a trace holds. Readers assign steps only to streams above 0; Kineto's own traces use 7 for the default.
inline constexpr int kExportedStream = 7;                    ///< lane l is stream 7 + l
inline constexpr int kExportedProgram = 1'000'000;           ///< process of the program's rows; a device's rows have the device's number
inline constexpr int kExportedThread = 1'000'001;            ///< thread t of the program is 1'000'001 + t
inline constexpr int kExportedWaits = 999'999;               ///< process of the device's waits; their lane is the thread
inline constexpr const char* kExportedWait = "mptune_wait";  ///< their category

/// Returns "d12" for a data edge from event 12 to the row's event; `o` stands for order, `e` for event_wait.
[[nodiscard]] std::string exported_edge(const Edge& edge);

/// Which part of a trace a file of write_kineto holds.
struct KinetoPart {
  std::string trace;  ///< the same in all files of the trace
  int device = 0;
  int devices = 1;  ///< of the trace
};
/// Reads which part a file holds; nullopt for files of other programs. Reads the beginning of the file only. Throws Error as
/// read_chrome_events does.
[[nodiscard]] std::optional<KinetoPart> kineto_part(const std::string& path);

/// A trace made from files of write_kineto.
struct KinetoExport {
  Trace trace;
  std::vector<int> missing;  ///< devices of the written trace without a file
};

/// The inverse of write_kineto, except for what write_kineto leaves out; files may come in any order. Devices without a file are no devices
/// of the trace, copies to them lead to host memory, and what their files hold (including copies from them) is missing.
/// Throws Error: as read_chrome_events does, a file of another program or trace, a device twice, indices out of range, times that can't be
/// right, copies of 2^60 bytes, no work.
[[nodiscard]] KinetoExport read_kineto_export(const std::vector<std::string>& paths);

}  // namespace mptune::profiler

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/base/printable.h"
#include "profiler/base/shell_command.h"
#include "profiler/trace/store/hostile_database.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/schema.h"
#include "profiler/trace/store/store.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestStepSeconds = 1e9;
constexpr const char* kRemedy = "name a trace made by 'mptune profile' or an Nsight Systems SQLite export";

// Checks the size in the header. SQLite itself would fill a truncated last page with zeros.
void require_whole_file(const fs::path& path) {
  std::array<char, 100> header{};
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), header.size());
  if (!file.is_open() || file.bad()) return;  // SQLite reports why
  const auto number = [&](std::size_t at, int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(header[at + as_index(i)]);
    return value;
  };
  const std::string_view magic("SQLite format 3\0", 16);
  const auto read = as_index(file.gcount());
  if (read == 0) throw Error("the file is empty", path.string(), kRemedy);
  if (std::string_view(header.data(), std::min(read, magic.size())) != magic)
    throw Error("this is not an SQLite file", path.string(), kRemedy);
  const std::uint64_t page_size = number(16, 2) == 1 ? 65536 : number(16, 2);
  const bool size_is_valid = number(24, 4) == number(92, 4);
  if (read < header.size() || (size_is_valid && fs::file_size(path) < number(28, 4) * page_size))
    throw Error("the file is truncated", path.string(), "record or copy it again");
}

// SQLite ignores case in table names.
void refuse_views(SQLite::Database& database) {
  const std::string name = first_active_object(
      database,
      "name LIKE 'MPTUNE\\_%' ESCAPE '\\' OR name LIKE 'CUPTI\\_%' ESCAPE '\\' OR name LIKE 'TARGET\\_INFO\\_%' ESCAPE '\\' OR upper(name) "
      "IN ('STRINGIDS', 'NVTX_EVENTS', 'DIAGNOSTIC_EVENT', 'PROFILER_OVERHEAD', 'META_DATA_EXPORT', 'EXPORT_META_DATA')");
  if (!name.empty()) throw BadContent("the table " + name + " is a view");
}

Recording read_own(SQLite::Database& database, const std::string& path) {
  const std::int64_t major = read_meta_integer(database, "schema_major");
  if (major > kSchemaMajor) {
    throw Error(
        "a newer mptune wrote this file (version " + std::to_string(major) + ", this one reads " + std::to_string(kSchemaMajor) + ")", path,
        "read it with a newer mptune");
  }
  if (major < 1) throw BadContent("the version " + std::to_string(major) + " does not exist");
  Recording recording;
  recording.plan_json = read_meta(database, "plan");
  recording.environment = read_meta(database, "environment");
  for (const TrainingField& field : kTrainingFields)
    recording.training.*field.value = read_meta(database, std::string("training.") + field.name);
  Rows overhead(database, "SELECT step_off_s, step_on_s FROM MPTUNE_OVERHEAD");
  if (!overhead.next()) throw BadContent("MPTUNE_OVERHEAD has no row");
  recording.step_off_s = overhead.real(0);
  recording.step_on_s = overhead.real(1);
  for (const double step_s : {recording.step_off_s, recording.step_on_s})
    if (!(step_s >= 0 && step_s <= kLongestStepSeconds)) throw BadContent("the time of a step is negative or too large");
  if (read_meta_integer(database, "has_trace") != 0) recording.trace = read_trace(database);
  if (read_meta_integer(database, "has_profile") != 0) recording.profile = read_profile(database);
  return recording;
}

bool has_any(SQLite::Database& database, const std::string& condition) {
  return SQLite::Statement(database, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND (" + condition + ")").executeStep();
}

// Looks for any table, since an export lacks the tables of what it did not record.
bool is_nsight(SQLite::Database& database) {
  return has_any(database,
                 "name LIKE 'CUPTI\\_ACTIVITY\\_KIND\\_%' ESCAPE '\\' OR name LIKE 'TARGET\\_INFO\\_%' ESCAPE '\\' OR upper(name) IN "
                 "('NVTX_EVENTS', 'OSRT_API', 'META_DATA_EXPORT', "
                 "'EXPORT_META_DATA', 'META_DATA_CAPTURE')");
}

// Says which other profiler wrote a database, if its tables show it.
[[noreturn]] void refuse_unknown(SQLite::Database& database, const std::string& path) {
  const char* record = "record with torch.profiler and give its Kineto trace";
  if (has_any(database, "name LIKE 'rocpd\\_%' ESCAPE '\\'"))
    throw Error("it is a database of AMD's rocprofiler (rocpd), which is not read", path, record);
  if (has_any(database, "name = 'STRING_IDS'") && has_any(database, "name IN ('TASK', 'CANN_API', 'COMPUTE_TASK_INFO', 'NPU_INFO')"))
    throw Error("it is a database of Ascend's profiler (msprof, MSPTI), which is not read", path, record);
  throw BadContent("neither mptune nor Nsight Systems wrote it");
}

// Returns what the export itself says, the gravest first: as a rule, why nothing was recorded.
std::string diagnosis_of(SQLite::Database& database) {
  if (!has_column(database, "DIAGNOSTIC_EVENT", "severity") || !has_column(database, "DIAGNOSTIC_EVENT", "text")) return "";
  Rows rows(database,
            "SELECT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3) AND text IS NOT NULL ORDER BY severity DESC, timestamp LIMIT 1");
  return rows.next() ? ": '" + printable(rows.text(0)) + "'" : "";
}

// Refuses a trace of nothing, which is of no use; a trace of calls and ranges alone may be joined with others.
void require_rows(SQLite::Database& database, const Trace& trace, const std::string& path) {
  if (!trace.events.empty() || !trace.launches.empty() || !trace.ranges.empty() || trace.quality != TraceQuality{}) return;
  throw Error("the export of Nsight Systems holds no rows of CUDA" + diagnosis_of(database), path,
              "record the process that uses the GPUs, with nsys profile --trace=cuda,nvtx");
}

// `given`: the path as the user gave it, for messages.
Recording read_database(const fs::path& path, const std::string& given) {
  SQLite::Database database(path, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, 2000);
  const WorkLimit limit(database, fs::file_size(path));
  database.exec("PRAGMA trusted_schema = OFF");
  refuse_views(database);
  if (has_table(database, "MPTUNE_META")) return read_own(database, path.string());
  if (!is_nsight(database)) refuse_unknown(database, given);
  Recording recording;
  recording.trace = read_nsight(database);
  require_rows(database, *recording.trace, given);
  return recording;
}

[[noreturn]] void refuse_read(const SQLite::Exception& failure, const std::string& path) {
  switch (failure.getErrorCode()) {
    case SQLITE_NOTADB:
      throw Error("this is not an SQLite file", path, kRemedy);
    case SQLITE_CORRUPT:
    case SQLITE_INTERRUPT:
      throw Error("the file is truncated or damaged", path, "record or copy it again");
    case SQLITE_CANTOPEN:
      require_path_for_sqlite(path);
      [[fallthrough]];
    case SQLITE_PERM:
    case SQLITE_AUTH:
      throw Error("the file cannot be opened", path, "check its permissions");
    case SQLITE_IOERR:
      throw Error("the file cannot be read (" + std::string(failure.what()) + ")", path, "check the disk", ExitCode::environment);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw Error("another program is writing the file", path, "wait until it has ended");
    default:
      throw Error("the file does not have the layout of a trace (" + std::string(failure.what()) + ")", path, kRemedy);
  }
}

}  // namespace

Recording read_recording(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) throw Error("there is no such file", path, "check the name");
  if (!fs::is_regular_file(status)) throw Error("this is not a file", path, kRemedy);
  require_whole_file(path);
  try {
    return read_database(fs::absolute(path), path);
  } catch (const BadContent& fault) {
    throw Error(std::string("the file cannot be used: ") + fault.what(), path, kRemedy);
  } catch (const SQLite::Exception& failure) {
    refuse_read(failure, path);
  } catch (const fs::filesystem_error& failure) {
    throw Error("the file cannot be read (" + failure.code().message() + ")", path, "check its permissions");
  }
}

}  // namespace mptune::profiler

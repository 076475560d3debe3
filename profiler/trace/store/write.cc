#include <sqlite3.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "profiler/base/error.h"
#include "profiler/base/new_file.h"
#include "profiler/base/shell_command.h"
#include "profiler/trace/store/rows.h"
#include "profiler/trace/store/schema.h"
#include "profiler/trace/store/store.h"
#include "profiler/trace/store/tables.h"

namespace mptune::profiler {
namespace {

namespace fs = std::filesystem;

bool is_ours(const fs::path& path) {
  try {
    SQLite::Database database(path, SQLite::OPEN_READONLY);
    return has_table(database, "MPTUNE_META");
  } catch (const SQLite::Exception&) {
    return false;
  }
}

void require_replaceable(const fs::path& path, bool force) {
  if (path.empty()) throw Error("no file name was given", "output", "name the trace file with -o");
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status) || is_written_directly(path.string())) return;
  if (fs::is_directory(status)) throw Error("the path is a folder", path.string(), "name a file with -o");
  if (!force && !is_ours(path))
    throw Error("the file exists and was not written by mptune", path.string(), "name another file with -o or replace it with --force");
}

void write_database(const Recording& recording, const fs::path& path) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE | SQLite::OPEN_NOMUTEX);
  // The temporary file needs no journal: it is deleted on any failure and synced before it is renamed.
  // Rows are appended, so a small cache is enough and memory does not grow with the trace.
  database.exec(
      "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = "
      "-4096;");
  SQLite::Transaction transaction(database);
  database.exec(kSchemaSql);
  write_meta(database, "schema_major", std::to_string(kSchemaMajor));
  write_meta(database, "schema_minor", std::to_string(kSchemaMinor));
  write_meta(database, "tool_version", MPTUNE_VERSION);
  write_meta(database, "plan", recording.plan_json);
  write_meta(database, "environment", recording.environment);
  const TrainingSpec training = without_folders(recording.training);
  for (const TrainingField& field : kTrainingFields)
    if (const std::string& value = training.*field.value; !value.empty())
      write_meta(database, std::string("training.") + field.name, value);
  write_meta(database, "has_trace", recording.trace ? "1" : "0");
  write_meta(database, "has_profile", recording.profile ? "1" : "0");
  Insert(database, "INSERT INTO MPTUNE_OVERHEAD VALUES (?, ?)")(recording.step_off_s, recording.step_on_s);
  Insert about(database, "INSERT INTO META_DATA_EXPORT VALUES (?, ?)");
  for (const auto& [name, value] : {std::pair{"EXPORT_PRODUCT_NAME", "mptune"},
                                    {"EXPORT_PRODUCT_VERSION", MPTUNE_VERSION},
                                    {"EXPORT_SCHEMA_VERSION", "3.25.0"},
                                    {"EXPORT_SCHEMA_VERSION_MAJOR", "3"},
                                    {"EXPORT_SCHEMA_VERSION_MINOR", "25"},
                                    {"EXPORT_SCHEMA_VERSION_MICRO", "0"},
                                    {"EXPORT_PLATFORM", "linux-desktop"},
                                    {"EXPORT_PARAM_EXPORT_TYPE", "SQLite"}})
    about(std::string(name), std::string(value));
  // Some readers need a host name; the real one is private.
  Insert(database, "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, 'System', 'Hostname', 0, 'not recorded')")(kGlobalVid);
  if (recording.trace) write_trace(database, *recording.trace);
  if (recording.profile) write_profile(database, *recording.profile);
  transaction.commit();
}

[[noreturn]] void refuse_write(const SQLite::Exception& failure, const std::string& path) {
  switch (failure.getErrorCode()) {
    case SQLITE_FULL:
      throw write_error(path, ENOSPC);
    case SQLITE_CANTOPEN:
      require_path_for_sqlite(path);
      [[fallthrough]];
    case SQLITE_READONLY:
    case SQLITE_PERM:
      throw write_error(path, EACCES);
    case SQLITE_IOERR:
      throw Error("writing failed (" + std::string(failure.what()) + ")", path, "check the disk's space and quota, or write elsewhere",
                  ExitCode::environment);
    default:
      throw Error("the recording cannot be stored (" + std::string(failure.what()) + ")", path, "report this as a bug", ExitCode::internal);
  }
}

}  // namespace

void write_recording(const Recording& recording, const std::string& path, bool force) {
  if (recording.trace) {
    const std::string fault = inconsistency(*recording.trace);
    if (!fault.empty()) throw std::invalid_argument("the trace is not consistent: " + fault);
  }
  require_replaceable(path, force);
  NewFile file(path);
  try {
    write_database(recording, file.temporary());
  } catch (const SQLite::Exception& failure) {
    refuse_write(failure, path);
  }
  file.commit();
}

}  // namespace mptune::profiler

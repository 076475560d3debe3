#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "profiler/base/error.h"
#include "tests/profiler/trace/store/scratch.h"
#include "tests/support/error_of.h"

namespace mptune::profiler {
namespace {

using ::testing::HasSubstr;

// Databases that hold nothing to analyse, or that other profilers wrote.
class OtherDatabases : public testing::Scratch {
 protected:
  Error refusal(const std::string& sql) const {
    std::filesystem::remove(path());
    SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
    return testing::error_of([&] { (void)read_recording(path()); });
  }
};

TEST_F(OtherDatabases, AnExportWithoutRowsOfCudaSaysWhy) {
  const std::string export_of_nothing =
      "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT); INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.24.14');"
      "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER); INSERT INTO OSRT_API VALUES (1, 2, 3, 4);";
  const Error plain = refusal(export_of_nothing);
  EXPECT_EQ(plain.problem(), "the export of Nsight Systems holds no rows of CUDA");
  EXPECT_EQ(plain.where(), path());
  const Error explained = refusal(
      export_of_nothing +
      "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER, text TEXT, "
      "globalPid INTEGER); INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 0, 0, 1, 'started', NULL), (1, 0, 0, 2, 'No CUDA events', NULL);");
  EXPECT_EQ(explained.problem(), "the export of Nsight Systems holds no rows of CUDA: 'No CUDA events'");
}

// Not every version of nsys writes the table of its version.
TEST_F(OtherDatabases, AnyTableOfAnExportTellsWhoWroteIt) {
  for (const char* table : {"TARGET_INFO_GPU", "OSRT_API", "META_DATA_CAPTURE", "EXPORT_META_DATA"})
    EXPECT_EQ(refusal(std::string("CREATE TABLE ") + table + " (id INTEGER, name TEXT, value TEXT)").problem(),
              "the export of Nsight Systems holds no rows of CUDA")
        << table;
}

TEST_F(OtherDatabases, OtherProfilersAreNamed) {
  EXPECT_THAT(refusal("CREATE TABLE rocpd_kernel_dispatch_1 (id INTEGER)").problem(), HasSubstr("rocprofiler"));
  EXPECT_THAT(refusal("CREATE TABLE STRING_IDS (id INTEGER); CREATE TABLE TASK (startNs INTEGER)").problem(), HasSubstr("Ascend"));
  EXPECT_THAT(refusal("CREATE TABLE notes (id INTEGER)").problem(), HasSubstr("neither mptune nor Nsight Systems"));
}

}  // namespace
}  // namespace mptune::profiler

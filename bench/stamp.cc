// A command whose last act is to write down the time: waybill-bench-stamp FILE MILLISECONDS.

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) return 1;
  usleep(static_cast<useconds_t>(std::strtoul(argv[2], nullptr, 10)) * 1000);
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  _exit(write(fd, &ns, sizeof ns) == sizeof ns ? 0 : 1);
}

// Expectation-maximisation on a GPU: identification/smoothing.py, maximisation.py and steps.py with the number
// of dimensions D a constant, so that matrices lie in registers. A thread has one model, a warp 32 of the same D.
//
// What is read at a place that depends on the arm lies in shared memory, the number LANES apart; what the
// smoother needs of every cell in global memory, likewise. Sums are the same as the CPU's but for rounding:
// S11 is S00 shifted by a round, quotients are products with a reciprocal, of symmetric matrices one half is
// computed. Every cell is a round with a reward, after which the state moves. Words in capitals that are not
// defined here come from gpu_steps.py.

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#define CALLED __device__ __noinline__
#define LANES 32
#define CONVERGE() __syncwarp()
#define COUNT(x) __popc(__ballot_sync(0xffffffffu, x))
#define TAKE(x) atomicAdd(x, 1)
#define INVERSE_ROOT(x) rsqrt(x)
#define PREFETCH(p) asm volatile("prefetch.global.L1 [%0];" ::"l"(p))
#else  // a compiler of the host's, for tests: one model at a time
#include <cmath>
#include <cstring>
using std::erfc; using std::exp; using std::fabs; using std::fmax; using std::fmin; using std::log; using std::pow; using std::sqrt;
#define DEVICE inline
#define CALLED static
#define LANES 1
#define CONVERGE()
#define COUNT(x) ((x) ? 1 : 0)
#define TAKE(x) (*(x))++
#define INVERSE_ROOT(x) (1 / sqrt(x))
#define PREFETCH(p)
#endif

// A loop that the compiler writes out, so that what it indexes stays in registers.
#define EACH(i, first, end) _Pragma("unroll") for (int i = first; i < end; i++)

typedef long long Long;

// Job kinds, as in identification/search_machine.py.
enum { NONE, IMPROVE, FILTER, FINISH, CARRY };

DEVICE constexpr int tri(int a, int b) { return a >= b ? a * (a + 1) / 2 + b : b * (b + 1) / 2 + a; }

template <int D> struct Sizes {
  static constexpr int E = D + 1, T = D * (D + 1) / 2, TE = E * (E + 1) / 2;
  static constexpr int ARM = D + 2 + TE;     // c, mu, sigma2, U; or the sums b, yy, A
  static constexpr int CELL = 2 * D + T + 3;  // z, F, K, v/S, 1/S, weight
  static constexpr bool HELD = D <= 4;        // matrices that all cells share stay in registers
  static constexpr int SHARED = D * D + T + (HELD ? 0 : D * D + T) + ARMS * (2 * ARM + 3);
  static constexpr int SPARE = D * D + T + ARMS * (D + 2);
};

// L, lower triangular, in place of A (packed), with 1 / its diagonal in r; returns the least pivot.
template <int N> DEVICE double cholesky(double* A, double* r) {
  double least = 1e308;
  EACH(a, 0, N)
    EACH(b, 0, a + 1) {
      double total = A[tri(a, b)];
      EACH(j, 0, b) total -= A[tri(a, j)] * A[tri(b, j)];
      if (a == b) {
        least = fmin(least, total);
        total = fmax(total, 1e-12 * A[tri(a, a)] + 1e-300);
        r[a] = INVERSE_ROOT(total);
        A[tri(a, a)] = total * r[a];
      } else A[tri(a, b)] = total * r[b];
    }
  return least;
}

// A^-1 in place of a positive definite A (packed).
template <int N> DEVICE void invert(double* A) {
  double r[N];
  cholesky<N>(A, r);
  EACH(b, 0, N) {  // L^-1
    A[tri(b, b)] = r[b];
    EACH(a, b + 1, N) {
      double total = 0;
      EACH(j, b, a) total -= A[tri(a, j)] * A[tri(j, b)];
      A[tri(a, b)] = total * r[a];
    }
  }
  EACH(a, 0, N)
    EACH(b, 0, a + 1) {
      double total = 0;
      EACH(j, a, N) total += A[tri(j, a)] * A[tri(j, b)];
      A[tri(a, b)] = total;
    }
}

// Of one thread: its model and sums in shared memory, what it keeps of every cell, and its history.
template <int D> struct Model {
  using Z = Sizes<D>;
  double *shared, *cells, *spare, *row;
  const double* y;
  const signed char* arms;
  double reach;
  int n, model, count;  // cells, which one, arms that take part

  DEVICE double& G(int a, int b) { return shared[(a * D + b) * LANES]; }
  DEVICE double& Q(int i) { return shared[(D * D + i) * LANES]; }
  DEVICE double& S00(int i) { return shared[(D * D + Z::T + i) * LANES]; }  // where not held
  DEVICE double& cross(int i) { return shared[(D * D + 2 * Z::T + i) * LANES]; }
  DEVICE double* arm(int a) { return shared + (Z::SHARED - ARMS * (2 * Z::ARM + 3) + a * Z::ARM) * LANES; }
  DEVICE double* sums(int a) { return arm(ARMS + a); }
  DEVICE double& prior(int a, int i) { return shared[(Z::SHARED - 3 * ARMS + 3 * a + i) * LANES]; }
  DEVICE double* past(int a) { return row + AT_PAST + (model * ARMS + a) * (SIDE + 2) * (SIDE + 2); }
};
#define OF(p, i) (p)[(i) * LANES]

template <int D> DEVICE void read_model(Model<D>& m) {
  const double* G = m.row + AT_G + m.model * SIDE * SIDE;
  const double* Q = m.row + AT_Q + m.model * SIDE * SIDE;
  for (int a = 0; a < D; a++)
    for (int b = 0; b < D; b++) {
      m.G(a, b) = G[a * SIDE + b];
      if (b <= a) m.Q(tri(a, b)) = Q[a * SIDE + b];
    }
  for (int k = 0; k < m.count; k++) {
    const int i = m.model * ARMS + k;
    double* p = m.arm(k);
    const double* U = m.row + AT_U + i * (SIDE + 1) * (SIDE + 1);
    for (int a = 0; a < D; a++) OF(p, a) = m.row[AT_C + i * SIDE + a];
    OF(p, D) = m.row[AT_MU + i];
    OF(p, D + 1) = m.row[AT_S2 + i];
    for (int a = 0; a <= D; a++)
      for (int b = 0; b <= a; b++) OF(p, D + 2 + tri(a, b)) = U[a * (SIDE + 1) + b];
    for (int a = 0; a < 3; a++) m.prior(k, a) = m.row[AT_PRIOR + i * 3 + a];
  }
}

template <int D> DEVICE void write_arm(Model<D>& m, int k) {
  const int i = m.model * ARMS + k;
  const double* p = m.arm(k);
  double* U = m.row + AT_U + i * (SIDE + 1) * (SIDE + 1);
  for (int a = 0; a < D; a++) m.row[AT_C + i * SIDE + a] = OF(p, a);
  m.row[AT_MU + i] = OF(p, D);
  m.row[AT_S2 + i] = OF(p, D + 1);
  for (int a = 0; a <= D; a++)
    for (int b = 0; b <= D; b++) U[a * (SIDE + 1) + b] = OF(p, D + 2 + tri(a, b));
  for (int a = 0; a < 3; a++) m.row[AT_PRIOR + i * 3 + a] = m.prior(k, a);
}

template <int D> DEVICE void write_model(Model<D>& m) {
  double* G = m.row + AT_G + m.model * SIDE * SIDE;
  double* Q = m.row + AT_Q + m.model * SIDE * SIDE;
  for (int a = 0; a < D; a++)
    for (int b = 0; b < D; b++) {
      G[a * SIDE + b] = m.G(a, b);
      Q[a * SIDE + b] = m.Q(tri(a, b));
    }
  for (int k = 0; k < m.count; k++) write_arm(m, k);
}

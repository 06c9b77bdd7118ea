// The E-step, identification/smoothing.py and doubt.py: a filter forwards, a smoother backwards.

// smoothing.loading_variance of an arm.
template <int D> DEVICE double loading_variance(const double* p, const double* z, const double* P) {
  const double* U = p + (D + 2) * LANES;
  double total = OF(U, tri(D, D));
  EACH(a, 0, D) {
    double inner = 2 * OF(U, tri(D, a)) + OF(U, tri(a, a)) * z[a];
    total += OF(U, tri(a, a)) * P[tri(a, a)];
    EACH(b, 0, a) {
      const double u = 2 * OF(U, tri(a, b));
      inner += u * z[b];
      total += u * P[tri(a, b)];
    }
    total += inner * z[a];
  }
  return fmax(total, 0.0);
}

// smoothing.run_filter: returns the log-likelihood; `last` (z, P) gets the prediction, where it is asked for.
template <int D> DEVICE double run_filter(Model<D>& m, double* last_z, double* last_P) {
  using Z = Sizes<D>;
  double P[Z::T], z[D], held[Z::HELD ? D * D : 1];
  EACH(a, 0, D) {
    z[a] = 0;
    EACH(b, 0, a + 1) P[tri(a, b)] = a == b;
  }
  if (Z::HELD)
    EACH(i, 0, D * D) held[i] = OF(m.shared, i);
#define GAMMA(a, b) (Z::HELD ? held[(a) * D + (b)] : m.G(a, b))
  double likelihood = 0, product = 1;
  double y = m.y[0];
  int arm = m.arms[0];
#pragma unroll 1
  for (int t = 0; t < m.n; t++) {
    const double* p = m.arm(arm);
    double* cell = m.cells + (Long)t * Z::CELL * LANES;
    double v = y - OF(p, D), S = OF(p, D + 1), K[D];
    if (t + 1 < m.n) {
      y = m.y[t + 1];
      arm = m.arms[t + 1];
    }
    S += loading_variance<D>(p, z, P);
    EACH(a, 0, D) {
      const double c = OF(p, a);
      double total = 0;
      EACH(b, 0, D) total += P[tri(a, b)] * OF(p, b);
      K[a] = total;
      S += c * total;
      v -= c * z[a];
    }
    double weight = 1;
    if (fabs(v) > m.reach && v * v > OUTLIER * OUTLIER * S) {
      const double larger = v * v / (OUTLIER * OUTLIER);
      weight = S / larger;
      S = larger;
    }
    const double inverse = 1 / S, scaled = v * inverse;
    likelihood -= 0.5 * v * scaled;
    product *= S;
    if (product > 1e100 || product < 1e-100) {
      likelihood -= 0.5 * log(product);
      product = 1;
    }
    EACH(a, 0, D) {
      z[a] += K[a] * scaled;
      OF(cell, a) = z[a];
      const double gain = K[a] * inverse;
      EACH(b, 0, a + 1) {
        P[tri(a, b)] -= gain * K[b];
        OF(cell, D + tri(a, b)) = P[tri(a, b)];
      }
      OF(cell, D + Z::T + a) = gain;
    }
    OF(cell, 2 * D + Z::T) = scaled;
    OF(cell, 2 * D + Z::T + 1) = inverse;
    OF(cell, 2 * D + Z::T + 2) = weight;
    double ahead[D], next[Z::T];
    EACH(a, 0, D) {
      double T[D];
      ahead[a] = 0;
      EACH(b, 0, D) T[b] = 0;
      EACH(j, 0, D) {
        const double g = GAMMA(a, j);
        ahead[a] += g * z[j];
        EACH(b, 0, D) T[b] += g * P[tri(j, b)];
      }
      EACH(b, 0, a + 1) {
        double total = m.Q(tri(a, b));
        EACH(j, 0, D) total += T[j] * GAMMA(b, j);
        next[tri(a, b)] = total;
      }
    }
    EACH(a, 0, D) z[a] = ahead[a];
    EACH(i, 0, Z::T) P[i] = next[i];
  }
  if (last_z)
    EACH(a, 0, D) {
      last_z[a] = z[a];
      EACH(b, 0, D) last_P[a * SIDE + b] = P[tri(a, b)];
    }
  return likelihood - 0.5 * log(product);
}

// doubt._add_reward: to the sums of an arm, what a reward in the smoothed state N(z, P) tells of it.
template <int D> DEVICE void doubt_reward(const double* p, double* s, double y, const double* z, const double* P) {
  double Pc[D], known = 0, v = y - OF(p, D), x[D + 1];
  EACH(a, 0, D) {
    Pc[a] = 0;
    EACH(b, 0, D) Pc[a] += P[tri(a, b)] * OF(p, b);
    known += OF(p, a) * Pc[a];
    v -= OF(p, a) * z[a];
  }
  const double total = OF(p, D + 1) + loading_variance<D>(p, z, P);
  if (known >= OWN * total) return;
  EACH(a, 0, D) x[a] = z[a] - Pc[a] * v / (total - known);
  x[D] = 1;
  const double noise = OF(p, D + 1) + known * total / (total - known);
  EACH(a, 0, D + 1)
    EACH(b, 0, a + 1) OF(s, D + 2 + tri(a, b)) += x[a] * x[b] / noise;
}

// smoothing.smooth: the arms' sums of the first `counted` cells, and where `states` are asked for, S00, S11 and
// cross (packed, packed, D x D). With `doubt` the sums are those of doubt.py, of arms marked in `seldom`.
template <int D, bool DOUBT>
DEVICE void smooth(Model<D>& m, int counted, double* S00, double* S11, double* cross, const bool* seldom) {
  using Z = Sizes<D>;
  double N[Z::T], r[D], held[Z::HELD ? D * D : 1];
  EACH(i, 0, Z::T) N[i] = 0;
  EACH(a, 0, D) r[a] = 0;
  if (Z::HELD)
    EACH(i, 0, D * D) held[i] = OF(m.shared, i);
  if (Z::HELD) {
    EACH(i, 0, Z::T) S00[i] = 0;
    EACH(i, 0, D * D) cross[i] = 0;
  } else
    for (int i = 0; i < Z::T + D * D; i++) m.S00(i) = 0;
  for (int i = 0; i < m.count * Z::ARM; i++) OF(m.sums(0), i) = 0;
#pragma unroll 1
  for (int t = m.n - 1; t >= 0; t--) {
    const double* cell = m.cells + (Long)t * Z::CELL * LANES;
    const int arm = m.arms[t];
    const double y = m.y[t];
    if (t > 0)
      EACH(i, 0, Z::CELL) PREFETCH(cell - (Z::CELL - i) * LANES);
    double F[Z::T], z[D], K[D], V[Z::T];
    EACH(a, 0, D) {
      z[a] = OF(cell, a);
      K[a] = OF(cell, D + Z::T + a);
    }
    EACH(i, 0, Z::T) V[i] = F[i] = OF(cell, D + i);
    const double scaled = OF(cell, 2 * D + Z::T), inverse = OF(cell, 2 * D + Z::T + 1);
    double weight = OF(cell, 2 * D + Z::T + 2);
    if (t < m.n - 1) {
      double B[Z::T], X[D * D], g[D];
      EACH(i, 0, Z::T) B[i] = 0;
      EACH(i, 0, D * D) X[i] = 0;
      EACH(a, 0, D) g[a] = 0;
      EACH(j, 0, D) {  // row j of NG and of Y = NGF; B = G'NG, X = BF = G'Y
        double NG[D], Y[D];
        EACH(b, 0, D) {
          NG[b] = 0;
          EACH(i, 0, D) NG[b] += N[tri(j, i)] * GAMMA(i, b);
        }
        EACH(b, 0, D) {
          Y[b] = 0;
          EACH(i, 0, D) Y[b] += NG[i] * F[tri(i, b)];
          if (Z::HELD) cross[j * D + b] -= Y[b];
          else m.cross(j * D + b) -= Y[b];
        }
        EACH(a, 0, D) {
          const double gamma = GAMMA(j, a);
          g[a] += gamma * r[j];
          EACH(b, 0, D) {
            X[a * D + b] += gamma * Y[b];
            if (b <= a) B[tri(a, b)] += gamma * NG[b];
          }
        }
      }
      EACH(a, 0, D)
        EACH(b, 0, D) z[a] += F[tri(a, b)] * g[b];
      EACH(a, 0, D)
        EACH(b, 0, a + 1) {
          double total = V[tri(a, b)];
          EACH(j, 0, D) total -= F[tri(a, j)] * X[j * D + b];
          V[tri(a, b)] = total;
        }
      EACH(a, 0, D) {
        EACH(b, 0, D)
          if (Z::HELD) cross[a * D + b] += r[a] * z[b];
          else m.cross(a * D + b) += r[a] * z[b];
      }
      EACH(a, 0, D) r[a] = g[a];
      EACH(i, 0, Z::T) N[i] = B[i];
    }
    const double* p = m.arm(arm);
    double* s = m.sums(arm);
    if (DOUBT && seldom[arm]) doubt_reward<D>(p, s, y, z, V);
    EACH(a, 0, D)
      EACH(b, 0, a + 1) V[tri(a, b)] += z[a] * z[b];
    if (!DOUBT) {
      if (t < m.n - 1) {
        EACH(i, 0, Z::T)
          if (Z::HELD) S00[i] += V[i];
          else m.S00(i) += V[i];
      }
      if (t == 0)
        EACH(i, 0, Z::T) OF(m.spare, Z::SPARE + i) = V[i];
      if (t >= counted) weight = 0;
      OF(s, D) += weight * y;
      OF(s, D + 1) += weight * y * y;
      OF(s, D + 2 + tri(D, D)) += weight;
      EACH(a, 0, D) {
        const double scaled_state = weight * z[a];
        OF(s, a) += y * scaled_state;
        OF(s, D + 2 + tri(D, a)) += scaled_state;
        EACH(b, 0, a + 1) OF(s, D + 2 + tri(a, b)) += weight * V[tri(a, b)];
      }
    }
    double after[D], Kg = 0, KBK = 0;
    EACH(a, 0, D) {
      after[a] = 0;
      EACH(b, 0, D) after[a] += N[tri(a, b)] * K[b];
      Kg += K[a] * r[a];
      KBK += K[a] * after[a];
    }
    KBK += inverse;
    EACH(a, 0, D) {
      const double c = OF(p, a), half = c * KBK - after[a];
      r[a] += c * (scaled - Kg);
      EACH(b, 0, a + 1) N[tri(a, b)] += half * OF(p, b) - c * after[b];
    }
  }
  if (DOUBT) return;
  const double* last = m.cells + (Long)(m.n - 1) * Z::CELL * LANES;
  EACH(a, 0, D)
    EACH(b, 0, a + 1) {  // S11 is S00 without the first cell, with the last
      const double total = Z::HELD ? S00[tri(a, b)] : m.S00(tri(a, b));
      S00[tri(a, b)] = total;
      S11[tri(a, b)] = total - OF(m.spare, Z::SPARE + tri(a, b)) + OF(last, D + tri(a, b)) + OF(last, a) * OF(last, b);
    }
  if (!Z::HELD)
    for (int i = 0; i < D * D; i++) cross[i] = m.cross(i);
}
